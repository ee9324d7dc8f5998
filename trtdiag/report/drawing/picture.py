"""A drawn level with every coordinate final, for the page that works without JavaScript."""

from __future__ import annotations

from trtdiag.report.view_words import View


class PictureBox(View):
    """A box: position and size in pixels, CSS classes, two lines of text, and the badge of its findings."""

    x: str
    y: str
    width: str
    height: str
    classes: str
    label: str
    sub: str
    text_x: str
    label_y: str
    sub_y: str
    badge: str = ""
    badge_class: str = ""
    badge_x: str = "0"
    badge_y: str = "0"
    badge_text_y: str = "0"
    chip: str = ""
    chip_y: str = "0"
    title: str = ""


class Picture(View):
    """The boxes and the paths (SVG ``d``) of the edges between them."""

    width: str
    height: str
    boxes: tuple[PictureBox, ...]
    edges: tuple[str, ...]
