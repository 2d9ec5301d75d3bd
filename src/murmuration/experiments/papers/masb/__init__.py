"""MASB (Sliwko and Getov): negotiating node agents."""
