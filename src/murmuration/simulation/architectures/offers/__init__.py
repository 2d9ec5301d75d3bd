"""Offers in bulk: the allocator, holdings, claims and revocation over whole columns."""
