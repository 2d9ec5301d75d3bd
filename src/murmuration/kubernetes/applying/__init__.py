"""Plans carried out: each move checked again, made, and seen to have arrived."""
