"""Keeps pictures of the pages for the documentation, where the environment names a folder for them."""

import base64
import os
import struct
import zlib
from pathlib import Path
from typing import Final

from playwright.sync_api import Page

FOLDER: Final = os.environ.get("BRANCHGATE_SCREENSHOTS", "")
MOST_BYTES: Final = 250_000
# Keeps the 256 commonest colours of a picture and gives every other one the nearest of them.
_REDUCE: Final = """async (source) => {
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: image.width, height: image.height });
  const pen = canvas.getContext("2d");
  pen.drawImage(image, 0, 0);
  const pixels = new Uint32Array(pen.getImageData(0, 0, image.width, image.height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 256).map(([pixel]) => pixel);
  const part = (pixel, place) => (pixel >>> (8 * place)) & 255;
  const away = (a, b) => [0, 1, 2].reduce((sum, place) => sum + (part(a, place) - part(b, place)) ** 2, 0);
  const nearest = new Map(palette.map((pixel, index) => [pixel, index]));
  for (const pixel of counts.keys()) {
    if (nearest.has(pixel)) continue;
    let best = 0;
    palette.forEach((each, index) => { if (away(each, pixel) < away(palette[best], pixel)) best = index; });
    nearest.set(pixel, best);
  }
  const indices = Uint8Array.from(pixels, (pixel) => nearest.get(pixel));
  let text = "";
  for (let at = 0; at < indices.length; at += 32768) {
    text += String.fromCharCode(...indices.subarray(at, at + 32768));
  }
  const colours = palette.flatMap((pixel) => [0, 1, 2].map((place) => part(pixel, place)));
  return { width: image.width, height: image.height, colours, indices: btoa(text) };
}"""


def keep_picture(page: Page, name: str, *, theme: str = "light", height: int = 900) -> None:
    """Save what the page shows, 1440 px wide, as a small picture of at most 256 colours."""
    if not FOLDER:
        return
    before = page.viewport_size
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": 1440, "height": height})
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(200)
    picture = _reduced(page, page.screenshot())
    if before:
        page.set_viewport_size(before)
    page.emulate_media(color_scheme="light")
    assert len(picture) <= MOST_BYTES, f"{name} takes {len(picture)} bytes"
    path = Path(FOLDER) / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture)


def _reduced(page: Page, picture: bytes) -> bytes:
    """Return a picture as a PNG with a palette; another page counts its colours, free of this one's rules."""
    browser = page.context.browser
    assert browser is not None
    counting = browser.new_page()
    made = counting.evaluate(_REDUCE, "data:image/png;base64," + base64.b64encode(picture).decode())
    counting.close()
    width, height = made["width"], made["height"]
    indices = base64.b64decode(made["indices"])
    rows = b"".join(b"\0" + indices[at : at + width] for at in range(0, width * height, width))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = (
        (b"IHDR", head),
        (b"PLTE", bytes(made["colours"])),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
