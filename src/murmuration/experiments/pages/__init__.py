"""The reports of runs: which tables and figures each kind of study is shown with."""
