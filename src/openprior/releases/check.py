"""Whether a release is right: its folder as it was written, its arithmetic derived anew, and its noise secure.

It needs no private data. It cannot see whether the certificate tells what was really done.
"""

from pathlib import Path

from openprior.errors import ReleaseError
from openprior.releases.certificate import NOT_PRIVATE, Certificate
from openprior.releases.folder import read

__all__ = ["check_release"]


def check_release(path: str | Path, *, certificate_sha256: str | None = None) -> Certificate:
    """The certificate of a release that is right; a ReleaseError that says what is not.

    certificate_sha256   that of the certificate.json which was published elsewhere: then nothing can have been forged
                         since, because the certificate has the digest of every other file
    """
    folder = Path(path)
    certificate: Certificate = read(folder)["certificate"]
    if certificate_sha256 is not None and certificate.sha256 != certificate_sha256.strip().lower():
        raise ReleaseError(
            f"the certificate of {folder} is another than the one asked for: its SHA-256 is {certificate.sha256}; get "
            "the release from where that number was published"
        )
    if not certificate.is_private:
        raise ReleaseError(
            f"{NOT_PRIVATE}: the release in {folder} is whole, but whoever knows the seed can remove its noise; do not "
            "publish it, make it again without a seed"
        )
    return certificate
