"""Requests one by one on a changing number of nodes: the world, its loop, its scenarios and what is
measured."""
