"""Looking for content where none may be: the marker in each form in which it could be stored."""

import base64
import binascii
import zlib


def forms(marker: str) -> set[bytes]:
    """Return the marker as it stands in plain text, in hexadecimal and, wherever it begins, in base64."""
    plain = marker.encode()
    found = {plain, binascii.hexlify(plain)}
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + plain)
        # The first and last characters depend on the neighbours.
        found.add(coded[(before * 8 + 5) // 6 : (before + len(plain)) * 8 // 6])
    return found


def opened(session: str) -> bytes:
    """Return what a stored session says; Django compresses it, which would hide what it holds."""
    text = session.partition(":")[0]
    packed = base64.urlsafe_b64decode(text.strip(".") + "=" * (-len(text.strip(".")) % 4))
    return zlib.decompress(packed) if text.startswith(".") else packed
