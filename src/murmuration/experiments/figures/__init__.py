"""Figures for papers: what is drawn of runs (`data`), and how (`draw`, with matplotlib)."""
