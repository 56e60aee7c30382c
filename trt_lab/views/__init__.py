"""Figures and reports: numbers in, Bokeh models or HTML out. The only home of Bokeh.

One figure a module. None of them computes a verdict: `compare` does. Text that comes from a
model (names, types, log lines) reaches the page as text nodes, canvas text or escaped HTML only.
"""
