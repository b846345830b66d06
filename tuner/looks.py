"""Colours, dashes and marks of figures, in the dashboard and beside it.

The colours are Okabe and Ito's (Color Universal Design, 2008), which the colour-blind can tell
apart, without black and yellow, which a dark or a light ground hides.
"""

ORANGE, SKY, GREEN = "#e69f00", "#56b4e9", "#009e73"
BLUE, VERMILION, PURPLE, GREY = "#0072b2", "#d55e00", "#cc79a7", "#8c8c8c"
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "star")
