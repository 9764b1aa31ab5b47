"""Outcomes under seal: a charge buys one draw of noise, whoever stops, copies or repeats a run.

Every outcome is written to the journal *encrypted*, under a key of its own that so far only this process knows. Then
the key goes into the ledger, with a digest of what was written; and only then is the outcome handed out:

    charge (ledger) → draw → write under seal (journal) → publish key and digest (ledger) → hand out

**Claim.** Of all draws that were ever made for one charge, at most one can be seen by anybody.

*Proof.* A draw can be seen in three ways. From the process, which hands it out only after its key is in the ledger.
From a journal (the file, or any copy of it), which is of no use without the key. From the ledger, which has the keys
of those draws alone whose row is there. So who sees a draw sees one whose key is in the ledger; and the ledger takes
one row per event, in one transaction, and never changes it. ∎

**Claim.** A run that was killed at any instant can be resumed from its journal.

*Proof.* Go through the instants. The journal is made before the ledger opens the run; a journal whose run the ledger
does not know has no outcome, and resuming it opens the run. Before the outcome is in the journal, or while it is
written: the ledger has no key, the journal no whole line; the event is drawn again, which is right, as nobody can
have seen the first draw. In the journal, but its key not in the ledger: the same; the line that nobody can read is
cut off. Key in the ledger: the journal was synced before, so it has the outcome, and the digest fits. While it is
being resumed: see below. ∎

**Who may go on.** Resuming writes a fresh random *token*, first into the journal and then into the ledger, and the
ledger takes it only if the token that it had is in the journal and nothing else has changed. A journal without the
ledger's last token is a copy from before a resumption: refused. One without an outcome that the ledger has a key for
is a copy from before that event: refused. Of two that resume the same state at once, the ledger takes the first. A
process that still runs while a copy of its journal is resumed holds an old token, and is refused when it next
publishes a key. Killed between the two writes of a token, the journal has one that the ledger never took; the
ledger's last one is there as well, so it is resumed all the same.

None of this stands against someone who restores an older copy of the *ledger* or edits it (it is the memory), nor
against one who reads the ledger's raw pages or the process's memory while a key is being committed, and kills it at
that instant.
"""

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

import numpy as np

from openprior.errors import JournalError, SourceError
from openprior.privacy.journal import Journal, Outcome
from openprior.privacy.journal_values import decode_value, encode_value
from openprior.privacy.ledger import Ledger
from openprior.privacy.ledger_seals import RunSeals, Seal

__all__ = ["SealedJournal", "new_token"]

_TOKEN, _FINGERPRINT = "token", "fingerprint"


def new_token() -> str:
    """32 random bytes, in hexadecimal."""
    return secrets.token_hex(32)


class SealedJournal:
    """The journal of a run, together with what its ledger knows of it; see the module's text."""

    def __init__(self, journal: Journal, ledger: Ledger, run: str, seals: RunSeals) -> None:
        """Use `begin` or `resume`."""
        self._journal, self._ledger, self._run = journal, ledger, run
        self._token, self._secret = seals.token, seals.secret
        self._seals = dict(seals.outcomes)

    @classmethod
    def begin(cls, journal: Journal, ledger: Ledger, run: str) -> "SealedJournal":
        """The journal of a run that has just been opened, with the token of its header."""
        return cls(journal, ledger, run, ledger.seals(run))

    @classmethod
    def resume(
        cls, journal: Journal, ledger: Ledger, run: str, *, acknowledge_refusals: bool = False
    ) -> "SealedJournal":
        """The journal of a broken run, if it is the very one that the ledger knows."""
        seals = ledger.seals(run)
        if seals.token not in (journal.header.get(_TOKEN), *journal.notes.get(_TOKEN, [])):
            raise JournalError(
                f"{journal!r} is a copy from before its run was last resumed; what was drawn since is not in it. "
                "Resume from the journal that the run wrote last, or close the run"
            )
        for seq, seal in seals.outcomes.items():
            if seq not in journal.recorded or not _fits(journal, run, seq, seal):
                raise JournalError(
                    f"{journal!r} lacks the outcome of event {seq} that the ledger knows, or has another: it is an "
                    "older copy, or it was altered. Resume from the journal that the run wrote last, or close the run"
                )
        # At most one: an event begins after the one before it was sealed. Nobody can read it.
        for seq in [s for s in journal.recorded if s not in seals.outcomes]:
            journal.drop(seq)
        token = new_token()
        journal.note(_TOKEN, token)
        ledger.resume_run(run, seals, token, acknowledge_refusals=acknowledge_refusals)
        return cls(journal, ledger, run, RunSeals(token, seals.secret, seals.outcomes))

    def __len__(self) -> int:
        """How many outcomes can be read."""
        return len(self._seals)

    def find(self, seq: int, request: str) -> Outcome | None:
        """The outcome of event `seq`, or None; it must have been recorded for the same request."""
        sealed = self._journal.find(seq, request)
        if sealed is None:
            return None
        outcome = _open(str(sealed["sealed"]), self._seals[seq].key)
        if outcome is None:
            raise JournalError(
                f"{self._journal!r} has an outcome that the ledger's key does not open, so one of the two was altered; "
                "restore it, or close the run"
            )
        return outcome

    def record(self, seq: int, request: str, outcome: Outcome) -> None:
        """Write an outcome under seal, and publish its key; when this returns it may be handed out."""
        key = secrets.token_hex(32)
        sealed = _close(outcome, key)
        self._journal.record(seq, request, {"sealed": sealed})
        seal = Seal(_digest(self._run, seq, request, sealed), key)
        try:
            self._ledger.seal(self._run, seq, seal, self._token)
        except BaseException:
            self._journal.close()  # nothing may follow an outcome that was not sealed
            raise
        self._seals[seq] = seal

    def confirm(self, facts: Callable[[], Iterable[bytes | memoryview]]) -> None:
        """Write down a fingerprint of the private table, or compare it with the one that is there.

        It is keyed with a secret that only the ledger has, so that neither the journal alone nor the ledger alone tells
        anything about the table; the journal is deleted when the run ends.
        """
        mac = hmac.new(bytes.fromhex(self._secret), digestmod="sha256")
        for fact in facts():
            mac.update(hashlib.sha256(fact).digest())
        known = self._journal.notes.get(_FINGERPRINT, [])
        if not known and not self._seals:
            self._journal.note(_FINGERPRINT, mac.hexdigest())
        elif not (known and hmac.compare_digest(known[0].encode(errors="replace"), mac.hexdigest().encode())):
            raise SourceError(
                "the private table is not the one that this run began with; resume it with that one, or start anew"
            )

    def close(self) -> None:
        """Let go of the file; another process may resume the run."""
        self._journal.close()

    def remove(self) -> None:
        """Delete the file: the run is over."""
        self._journal.remove()


def _close(outcome: Outcome, key: str) -> str:
    plain = json.dumps(
        encode_value(Path("journal"), outcome), allow_nan=False, separators=(",", ":")
    ).encode()
    return base64.b64encode(_mask(plain, key)).decode("ascii")


def _open(sealed: str, key: str) -> Outcome | None:
    """The outcome; None if it is another key's."""
    try:
        outcome = json.loads(_mask(base64.b64decode(sealed), key))
    except ValueError:
        return None
    return cast("Outcome", decode_value(outcome)) if isinstance(outcome, dict) else None


def _mask(text: bytes, key: str) -> bytes:
    """Exclusive or with SHAKE-256 of the key: a one-time pad for whoever cannot tell SHAKE-256 from random bits. Each
    key is used once."""
    pad = np.frombuffer(hashlib.shake_256(bytes.fromhex(key)).digest(len(text)), dtype=np.uint8)
    return (np.frombuffer(text, dtype=np.uint8) ^ pad).tobytes()


def _digest(run: str, seq: int, request: str, sealed: str) -> str:
    return hashlib.sha256(json.dumps([run, seq, request, sealed]).encode()).hexdigest()


def _fits(journal: Journal, run: str, seq: int, seal: Seal) -> bool:
    request = journal.request_of(seq)
    stored = journal.find(seq, request)
    return stored is not None and hmac.compare_digest(
        _digest(run, seq, request, str(stored.get("sealed"))), seal.digest
    )
