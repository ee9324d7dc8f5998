"""A table of programs as ``fix-dims --apply`` writes it, as far as it is read."""

TABLE = {
    "schema": "trtdiag-programs/1",
    "label": "net",
    "sizes": [{"name": "w", "label": "w", "site": "x.shape[1]", "scale": 1, "offset": 0}],
    "programs": [
        {"file": "fixed.ep", "takes": "w <= 24"},
        {"file": "fixed-2.ep", "takes": "w >= 25"},
    ],
}
