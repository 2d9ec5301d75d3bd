"""Pods of a Kubernetes cluster: which go where, decided by the same policies as everything else.

`agent.py` is the loop; `queue.py` has who waits, `deciding.py` asks the policy, `leadership.py`
says whether we decide at all, `promises.py` keeps room for those that others were asked to make way
for.

The rules of Kubernetes are not here. An agent asks a `PodCluster` (`cluster.py`) which rows a pod
may use and tells it what was decided; who implements it (`kubernetes/scheduling/`) knows taints,
volumes and topology. So a policy that was written for a simulation schedules pods, and the agent
runs in virtual time against an API that loses requests.
"""
