"""Pictures.  Every figure is a frozen dataclass of plain data with a `draw()`, so that any process can draw it.

`render` turns a figure into PNG and SVG.  matplotlib is imported only when something is drawn.
"""
