"""Offers (Mesos): an allocator decides who is offered what is free; frameworks decide what to use.

`master.py` hears everything; `ledger.py` has the amounts, `client.py` what each framework wants,
`allocators.py` who is next. `frameworks.py` and `work.py` are the other side. The central master
has the same ledger inside and is its own first framework.

What is on offer is as good as taken: it counts towards the share of whom it is offered to, and
nobody else can be promised it. That makes offers safe without any agreement between frameworks, and
it is also their cost, for a framework that thinks for long keeps others waiting. Hence the rules
around an offer: it can time out, be refused for a while, be filtered beforehand, and tasks can be
revoked (`revocation.py`) for a framework that has less than it was guaranteed. Transactions
(`transactions.py`) are the other way to the same rows; both end in `Ledger.start`.
"""
