"""The fixed part of `moves.sh`: the functions its lines call."""

from __future__ import annotations

#: `@…@` is filled in; everything else is the script as it is.
FUNCTIONS = r"""#!/usr/bin/env bash
# @TITLE@
# @LABEL@: it holds for the snapshot it was made from. Look at it before you run it.
#
#   moves.sh            carry the moves out; run again, it goes on where it was stopped
#   moves.sh --dry-run  check every step and ask for every eviction without carrying any out
#   moves.sh --open     open the nodes that a run that was killed has left closed
#
# To steer a pod, all nodes but its own are closed (cordoned) from its eviction until its successor
# has a node, some seconds; they carry the annotation murmuration/closed-for-moves meanwhile.
# One run at a time. Needs bash 4 and jq. KUBECTL: the command, with its options, for kubectl.
# PATIENCE: seconds to wait for one thing, 300 by default.
set -euo pipefail
kubectl=${KUBECTL:-kubectl}
patience=${PATIENCE:-300}
mark=murmuration/closed-for-moves
origin=murmuration/replaces
mode=run finished=no target="" reason="" api=policy/v1
step=() space=() pod=() owner=() from=() later=() state=() uid_of=() old_uid=() new_name=() grace=()
batch=() wave=() stay=()
fail() { echo "$*" >&2; exit 1; }
case "$#:${1:-}" in
  0:) ;;
  1:--dry-run) mode=dry-run ;;
  1:--open) mode=open ;;
  *) echo "usage: $0 [--dry-run | --open]" >&2; exit 2 ;;
esac
[ "${BASH_VERSINFO[0]}" -ge 4 ] || fail "this script needs bash 4 or later"
command -v jq >/dev/null || fail "this script needs jq"
declare -A now=() taken=() known=() seen=() passed=()

retry() { # command: up to three times, because nodes come and go between two calls
  local k
  for k in 1 2 3; do if "$@"; then return 0; fi; sleep 1; done
  return 1
}

read_nodes() { # name, open or closed, marked or -
  $kubectl get nodes -o json | jq -r --arg mark "$mark" '.items[] | [.metadata.name,
    (if .spec.unschedulable == true then "closed" else "open" end),
    (if .metadata.annotations[$mark] then "marked" else "-" end)] | @tsv'
}

close_nodes() { # names; marked first, so that none is ever closed without a mark
  [ "$#" -gt 0 ] || return 0
  $kubectl annotate --overwrite node "$@" "$mark=true" >/dev/null || return 1
  $kubectl cordon "$@" >/dev/null
}

open_nodes() { # what carries the mark, but the nodes given
  local rows names=()
  rows=$(read_nodes) || return 1
  mapfile -t names < <(awk -F'\t' -v but=" $* " \
    '$3 == "marked" && !index(but, " " $1 " ") { print $1 }' <<<"$rows")
  [ "${#names[@]}" -gt 0 ] || return 0
  $kubectl uncordon "${names[@]}" >/dev/null || return 1
  $kubectl annotate node "${names[@]}" "$mark-" >/dev/null
}

close_but() { # node: close all others, and open this one if it was closed here
  local rows names=()
  rows=$(read_nodes) || return 1
  case "$(awk -F'\t' -v node="$1" '$1 == node { print $2 $3 }' <<<"$rows")" in
    "") fail "node $1 is not there any more; make a new plan" ;;
    closed-) fail "node $1 is closed; open it or make a new plan" ;;
    closedmarked)
      $kubectl uncordon "$1" >/dev/null || return 1
      $kubectl annotate node "$1" "$mark-" >/dev/null || return 1 ;;
  esac
  mapfile -t names < <(awk -F'\t' -v node="$1" '$1 != node && $2 == "open" { print $1 }' <<<"$rows")
  close_nodes "${names[@]}"
}

close_stay() { # the nodes that are to be empty, as far as they are there and open
  local rows names=()
  rows=$(read_nodes) || return 1
  mapfile -t names < <(awk -F'\t' -v these=" ${stay[*]} " \
    '$2 == "open" && index(these, " " $1 " ") { print $1 }' <<<"$rows")
  close_nodes "${names[@]}"
}

leave_closed() { # take the mark off the nodes that are empty now
  local rows names=()
  rows=$(read_nodes) || return 1
  mapfile -t names < <(awk -F'\t' -v these=" ${stay[*]} " \
    '$3 == "marked" && index(these, " " $1 " ") { print $1 }' <<<"$rows")
  [ "${#names[@]}" -gt 0 ] || return 0
  $kubectl annotate node "${names[@]}" "$mark-" >/dev/null || return 1
  echo "empty now and left closed: ${names[*]}"
}

at_exit() {
  [ "$finished" = no ] || retry leave_closed || true
  retry open_nodes || echo "some nodes are still closed: run $0 --open" >&2
}

read_pods() { # index: name, uid, node, state, grace, pod it replaces; of its owner, or it alone
  $kubectl -n "${space[$1]}" get pods -o json |
    jq -r --arg owner "${owner[$1]}" --arg pod "${pod[$1]}" --arg origin "$origin" '.items[]
    | select(if $owner == "" then .metadata.name == $pod
      else any(.metadata.ownerReferences[]?; .kind + "/" + .name == $owner) end)
    | select(.status.phase != "Failed" and .status.phase != "Succeeded")
    | [.metadata.name, .metadata.uid, (.spec.nodeName // "-"),
      (if .metadata.deletionTimestamp then "leaving"
       elif any(.status.conditions[]?; .type == "Ready" and .status == "True") then "ready"
       else "starting" end),
      (.metadata.deletionGracePeriodSeconds // .spec.terminationGracePeriodSeconds // 30),
      (.metadata.annotations[$origin] // "-")] | @tsv'
}

on_its_way() { # index, node: whether the node is its target, or one it goes to from there
  [ "$2" = "$target" ] || [[ "${later[$1]}" == *" $2 "* ]]
}

is_successor() { # index, name, uid, state, pod it replaces: whether it may stand for the pod
  [ "$4" != leaving ] && [ -z "${taken[$3]:-}" ] || return 1
  [ -n "${owner[$1]}" ] || return 0
  [ "$5" != "${pod[$1]}" ] || return 0
  [ "$5" = - ] || return 1
  if [ "${state[$1]}" = evicted ]; then [ -z "${seen[$3]:-}" ]; return; fi
  [ -z "${known[${space[$1]}/$2]:-}" ] || [ "$2" = "${pod[$1]}" ]
}

find_successor() { # index, rows: prints name, uid and node; one with a node before one without
  local name uid node status wait replaces waiting=""
  while IFS=$'\t' read -r name uid node status wait replaces; do
    [ -n "$name" ] && is_successor "$1" "$name" "$uid" "$status" "$replaces" || continue
    if [ "$node" = - ]; then waiting="$name $uid -"; continue; fi
    if [ "${state[$1]}" = evicted ] || [ -z "${owner[$1]}" ] || on_its_way "$1" "$node"; then
      echo "$name $uid $node"; return
    fi
  done <<<"$2"
  echo "$waiting"
}

claim() { # index, name, uid: this pod stands for the planned one from now on
  now[${space[$1]}/${pod[$1]}]=$2 taken[$3]=yes new_name[$1]=$2 state[$1]=done
  [ "$mode" = run ] && [ -n "${owner[$1]}" ] && [ "$2" != "${pod[$1]}" ] || return 0
  retry $kubectl -n "${space[$1]}" annotate --overwrite pod "$2" "$origin=${pod[$1]}" \
    >/dev/null || true
}

say() { echo "step ${step[$1]}: ${space[$1]}/${pod[$1]} $2"; }
give_up() { fail "$(say "$1" "$2")"; }

prepare() { # index: what is to be done for a step
  local i=$1 rows name uid="" node="" status="" wait=""
  local key=${space[$i]}/${pod[$i]}
  rows=$(read_pods "$i")
  name=${now[$key]:-${pod[$i]}}
  IFS=$'\t' read -r _ uid node status wait _ \
    < <(awk -F'\t' -v name="$name" '$1 == name' <<<"$rows") || true
  grace[$i]=${wait:-30}
  if [ -z "$uid" ] || [ "$status" = leaving ]; then
    old_uid[$i]=$uid
    resume "$i" "$rows"
  elif [ "$node" = "${from[$i]}" ] && [ -n "${owner[$i]}" ]; then
    state[$i]=todo uid_of[$i]=$uid
  elif [ "$node" = - ]; then
    state[$i]=waiting
  elif on_its_way "$i" "$node"; then
    say "$i" "is on $node already"
    claim "$i" "$name" "$uid"
  else
    give_up "$i" "is on $node and not on ${from[$i]}; make a new plan"
  fi
}

resume() { # index, rows: the pod is gone or going; a run before this one may have evicted it
  local name="" uid="" node=""
  state[$1]=waiting
  read -r name uid node < <(find_successor "$1" "$2") || true
  if [ -n "$uid" ] && [ "$node" != - ]; then
    say "$1" "is on $node already, as $name"
    claim "$1" "$name" "$uid"
  elif [ -z "$uid" ] && [ -z "${old_uid[$1]}" ] && [[ "${owner[$1]}" != StatefulSet/* ]]; then
    give_up "$1" "is not there any more; make a new plan"
  fi
}

evict() { # index, dry run or not; fails with a reason if it is to be tried again
  local name=${now[${space[$1]}/${pod[$1]}]:-${pod[$1]}} answer
  if answer=$(jq -cn --arg name "$name" --arg space "${space[$1]}" --arg uid "${uid_of[$1]}" \
    --arg api "$api" --argjson dry "$2" '{apiVersion: $api, kind: "Eviction",
      metadata: {name: $name, namespace: $space},
      deleteOptions: ({preconditions: {uid: $uid}} + if $dry then {dryRun: ["All"]} else {} end)}' |
    $kubectl create --raw "/api/v1/namespaces/${space[$1]}/pods/$name/eviction" -f - 2>&1); then
    return 0
  fi
  case "$answer" in *TooManyRequests* | *"disruption budget"*) reason=$answer; return 1 ;; esac
  give_up "$1" "cannot be evicted: $answer"
}

send_away() { # evict what can be evicted now
  local i uid
  # Who is there before the first goes is nobody's successor; a controller replaces it at once.
  for i in "${batch[@]}"; do
    [ "${state[$i]}" = todo ] || continue
    while IFS=$'\t' read -r _ uid _; do seen[${uid:--}]=yes; done < <(read_pods "$i")
  done
  for i in "${batch[@]}"; do
    [ "${state[$i]}" = todo ] || continue
    if evict "$i" false; then
      say "$i" "from ${from[$i]} to $target"
      state[$i]=evicted old_uid[$i]=${uid_of[$i]}
    fi
  done
}

has_arrived() { # index: whether its successor has a node; any but its own ends the script
  local rows name="" uid="" node=""
  rows=$(read_pods "$1")
  read -r name uid node < <(find_successor "$1" "$rows") || true
  [ -n "$uid" ] && [ "$node" != - ] || return 1
  on_its_way "$1" "$node" || give_up "$1" "was put on $node instead of $target; make a new plan"
  claim "$1" "$name" "$uid"
}

await_nodes() { # until every successor of the batch has a node
  local i waited=0 missing
  while :; do
    missing=""
    for i in "${batch[@]}"; do
      case "${state[$i]}" in evicted | waiting) has_arrived "$i" || missing=$i ;; esac
    done
    [ -n "$missing" ] || return 0
    [ "$waited" -lt "$((patience + grace[missing]))" ] ||
      give_up "$missing" "has no successor on $target after $waited s"
    sleep 1; waited=$((waited + 1))
  done
}

still() { # whether a step of the batch is in one of these states
  local i
  for i in "${batch[@]}"; do [[ " $* " != *" ${state[$i]} "* ]] || return 0; done
  return 1
}

to() { target=$1 batch=(); }

move() { # step, namespace, pod, owner, from, and where it goes after the target
  local i=${#step[@]}
  step+=("$1"); space+=("$2"); pod+=("$3"); owner+=("$4"); from+=("$5")
  shift 5
  later+=(" $* "); state+=(new); uid_of+=(""); old_uid+=(""); new_name+=(""); grace+=(30)
  batch+=("$i")
}

place() { move "$1" "$2" "$3" "" -; } # step, namespace, pod that is there and has no node

known() { # namespace and its pods at the time of the plan
  local name where=$1
  shift
  for name in "$@"; do known[$where/$name]=yes; done
}

go() { # carry out the steps to one node
  local i waited=0
  if [ "$mode" = dry-run ]; then check_batch; return; fi
  for i in "${batch[@]}"; do prepare "$i"; done
  while still todo waiting; do
    retry close_but "$target" || fail "cannot close nodes"
    send_away
    await_nodes
    retry open_nodes "${stay[@]}" || fail "cannot open nodes"
    still todo || break
    [ "$waited" -lt "$patience" ] || fail "not evicted after $waited s: $reason"
    echo "waiting: $reason"
    sleep 5; waited=$((waited + 5))
  done
  wave+=("${batch[@]}")
}

check_batch() { # the same without carrying anything out
  local i rows
  rows=$(read_nodes)
  awk -F'\t' -v node="$target" '$1 == node { here = 1 } END { exit !here }' <<<"$rows" ||
    fail "node $target is not there any more; make a new plan"
  for i in "${batch[@]}"; do
    if [ -n "${passed[${space[$i]}/${pod[$i]}]:-}" ]; then
      say "$i" "goes on from ${from[$i]} to $target"; continue
    fi
    passed[${space[$i]}/${pod[$i]}]=yes
    check "$i"
  done
}

check() { # index
  prepare "$1"
  case "${state[$1]}" in
    todo) if evict "$1" true; then say "$1" "would go from ${from[$1]} to $target"
      else say "$1" "would wait, it cannot be evicted now: $reason"; fi ;;
    waiting) say "$1" "would be waited for on $target" ;;
  esac
}


is_settled() { # index: the old pod is gone, and its successor is ready
  local rows
  rows=$(read_pods "$1")
  [ -z "${old_uid[$1]}" ] ||
    ! awk -F'\t' -v uid="${old_uid[$1]}" '$2 == uid { here = 1 } END { exit !here }' <<<"$rows" ||
    return 1
  awk -F'\t' -v name="${new_name[$1]}" \
    '$1 == name && $4 == "ready" { here = 1 } END { exit !here }' <<<"$rows"
}

settle() { # the next wave may need the room of those who left, and these to be ready
  local i waited=0
  [ "$mode" = run ] || return 0
  for i in "${wave[@]}"; do
    until is_settled "$i"; do
      [ "$waited" -lt "$((patience + grace[i]))" ] ||
        give_up "$i" "is not gone, or ${new_name[$i]} not ready on its node, after $waited s"
      sleep 2; waited=$((waited + 2))
    done
  done
  wave=()
}

start() { # the nodes that are empty in the end
  stay=("$@")
  if [ "$mode" = open ]; then retry open_nodes; exit 0; fi
  # Servers before 1.22 know the eviction only by its older name.
  $kubectl api-versions | awk '$1 == "policy/v1" { here = 1 } END { exit !here }' ||
    api=policy/v1beta1
  [ "$mode" = run ] || return 0
  trap at_exit EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  # What a killed run left closed stays so until its steps are done: a pod it has sent away may
  # still be made again, and must not find the other nodes open.
  retry close_stay || fail "cannot close nodes"
}

finish() { finished=$mode; }

"""
