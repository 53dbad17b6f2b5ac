"""Photos of phones in HEIC, which Pillow reads with the help of another package."""

from __future__ import annotations

from functools import cache

BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"})


def is_heic(header: bytes) -> bool:
    """Return whether a file that starts with these bytes is a HEIC photo."""
    return header[4:8] == b"ftyp" and header[8:12] in BRANDS


@cache
def register_heic() -> bool:
    """Let Pillow read HEIC; return False if the package for it is not installed."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return False
    register_heif_opener()
    return True
