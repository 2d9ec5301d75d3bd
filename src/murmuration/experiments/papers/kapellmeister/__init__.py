"""Kapellmeister (Velikanov et al.): genetic allocation and rescheduling."""
