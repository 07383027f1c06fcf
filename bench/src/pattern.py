"""The content of an upload: blocks that all differ, so that one in the wrong place or twice is found."""
import hashlib

BLOCK = 1 << 20
_base = hashlib.shake_128(b"lockgate").digest(BLOCK - 8)


def block(number):
    return number.to_bytes(8, "big") + _base


def digest(size):
    """SHA-256 of the first `size` bytes."""
    h = hashlib.sha256()
    for number in range(-(-size // BLOCK)):
        h.update(block(number)[:size - number * BLOCK])
    return h.hexdigest()
