"""Where the files that people edit are: `models/` and `experiments/`, in a checkout and in an installed wheel alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fssim.errors import UserError, nearest

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "_share"  # the wheel's copy; a checkout has the folders beside the package


def share() -> Path:
    """Return the folder that holds `models` and `experiments`."""
    return _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent


def models(kind: str) -> Path:
    """Return the folder of the models of a kind: "filesystems", "devices", "hosts" or "machines"."""
    return share() / "models" / kind


def experiments() -> Path:
    """Return the folder of the experiments."""
    return share() / "experiments"


def names(folder: Path, suffix: str = ".toml") -> Iterator[str]:
    """Yield the names that may stand for a file of `folder`, sorted."""
    if folder.is_dir():
        yield from sorted(path.stem for path in folder.iterdir() if path.suffix == suffix)


def find(given: str, folder: Path, what: str) -> Path:
    """Return the TOML file that `given` means: a path, or a name in `folder`.

    Raises `UserError` with the nearest names if there is none.
    """
    looks_like_a_path = given.endswith(".toml") or "/" in given
    path = Path(given) if looks_like_a_path else folder / f"{given}.toml"
    if path.is_file():
        return path
    if looks_like_a_path:
        raise UserError(f"{given}: no such file; known by name: {', '.join(names(folder)) or 'none'}")
    raise UserError(f"unknown {what} {given!r}{nearest(given, names(folder))}")
