"""Offers (Mesos): an allocator decides who is offered what is free; frameworks decide what to
use."""
