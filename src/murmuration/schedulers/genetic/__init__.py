"""The genetic scheduler (Kapellmeister and beyond): a snapshot of all rows, a search, assignments
and ordered moves."""
