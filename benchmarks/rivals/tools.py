"""The tools, with what each needs, which methods of it run, and which neighbouring tables its promise is about."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADAPTERS = Path(__file__).parent / "adapters"
MBI_DRAWING = ("benchmarks/rivals/adapters/mbi_drawing.py",)
ADD_REMOVE, REPLACE_ONE = "add-remove", "replace-one"


@dataclass(frozen=True)
class Tool:
    """One tool: what pip installs, the Pythons it runs on, best first, and a relation per method."""

    name: str
    methods: dict[str, str]
    package: str = ""
    installs: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    is_at_home: bool = False
    """Runs in openprior's own environment."""
    sources: tuple[str, ...] = ()
    """Files and folders beyond its adapter that its runs depend on."""
    lacks: dict[str, str] = field(default_factory=dict)
    """Methods that cannot be measured, and why."""

    @property
    def adapter(self) -> Path:
        """The script that runs inside the environment."""
        return ADAPTERS / f"{self.name}_rows.py"

    def fingerprint(self) -> str:
        """Of our own code that its runs depend on, so that they are measured again where it changes."""
        digest = hashlib.sha256()
        for path in (self.adapter, ADAPTERS / "exchange.py", *(ROOT / source for source in self.sources)):
            for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
                digest.update(file.read_bytes())
        return digest.hexdigest()[:12]


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "ours",
            {
                **dict.fromkeys(("tilt", "aim", "mst"), ADD_REMOVE),
                **dict.fromkeys(("tilt, replace-one", "aim, replace-one", "mst, replace-one"), REPLACE_ONE),
            },
            package="openprior",
            is_at_home=True,
            sources=("src/openprior",),
        ),
        Tool(
            "smartnoise",
            dict.fromkeys(("mst", "aim-2way", "aim", "mwem"), ADD_REMOVE),
            package="smartnoise-synth",
            installs=("smartnoise-synth",),
            pythons=("3.11", "3.10"),
            sources=MBI_DRAWING,
        ),
        Tool(
            "opendp",
            dict.fromkeys(("mst", "aim"), ADD_REMOVE),
            package="opendp",
            # Its extra leaves out pandas, which mbi wants when rows are drawn.
            installs=("opendp[polars,mbi]>=0.16", "pandas"),
            pythons=("3.12", "3.11", "3.13"),
            sources=MBI_DRAWING,
        ),
        Tool(
            "dpmm",
            dict.fromkeys(("privbayes", "mst", "aim"), ADD_REMOVE),
            package="dpmm",
            installs=("dpmm",),
            pythons=("3.11", "3.10"),
        ),
        Tool(
            "mbi",
            {"aim": REPLACE_ONE},
            package="mbi",
            is_at_home=True,
            sources=("benchmarks/mbi_loops.py",),
            lacks={"mst": "not in the package"},
        ),
        Tool(
            "dpsynth",
            dict.fromkeys(("mst", "aim", "aim-gdp", "swift"), ADD_REMOVE),
            package="dpsynth",
            # Not in the registry: it runs where its environment has been made by hand.
            installs=("dpsynth",),
            pythons=("3.12", "3.13"),
        ),
    )
}
