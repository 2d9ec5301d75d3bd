"""A live cluster from Python: started on this host, given work, asked about it, and ended.

.venv/bin/python examples/live_cluster.py

`murmuration.Cluster()` without `start` talks to the cluster that `murmur up` started.
"""

import murmuration

if __name__ == "__main__":
    with murmuration.Cluster.start(nodes=2, cpu=2, memory="256Mi", isolation="process") as cluster:
        outcome = cluster.run("hello", ["sh", "-c", "echo hello from $MURMUR_TASK"], count=3)
        print(outcome["state"], outcome["code"])
        print(sorted(cluster.logs(f"hello.{index}").strip() for index in range(3)))
        print(cluster.jobs.select("job", "state").rows())
        print(len(cluster.tasks), "tasks on", len(cluster.nodes), "nodes")
