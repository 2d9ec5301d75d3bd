"""The queue of a central master: who is next, for whom room is kept, who makes way."""
