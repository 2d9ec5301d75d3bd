"""Exports of clusters that run elsewhere: what their own tools print, as nodes and jobs."""
