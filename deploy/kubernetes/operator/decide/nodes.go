package decide

import (
	"sort"
)

// lookAfterNodes compares the pods with the wish. It does nothing without one.
func (d *decision) lookAfterNodes() {
	if !d.hasWish() {
		return
	}
	wish := d.Stream.Wish
	d.plan.Excluded = wish.Excluded
	pods := d.podsByIndex()
	for index := uint32(0); index < wish.Size+wish.Spares; index++ {
		if incarnation, isWanted := wish.Wants(index); isWanted {
			d.lookAfterNode(NodeID{index, incarnation}, pods[index])
		}
	}
	if !wish.Drain {
		d.deleteUnwished(pods)
	}
	d.dropOldLogs(pods)
}

func (d *decision) podsByIndex() map[uint32][]NodePod {
	pods := map[uint32][]NodePod{}
	for _, node := range d.Nodes {
		pods[node.Index] = append(pods[node.Index], node)
	}
	return pods
}

// lookAfterNode makes the node's pod if none of that incarnation, or of a higher one, has existed.
// Otherwise it tells the master how that pod is.
func (d *decision) lookAfterNode(wanted NodeID, pods []NodePod) {
	highest, wasSeen := d.seen[wanted.Index]
	newest := d.newestMade(NodeID{wanted.Index, max(wanted.Incarnation, highest)})
	name := NodePodName(d.Job.Name, newest)
	for i := range pods {
		if pods[i].Incarnation == newest.Incarnation {
			d.tellOfPod(newest, &pods[i])
			return
		}
	}
	if evidence, isGone := d.Memory.Gone[name]; isGone {
		d.fact(Fact{newest.Index, newest.Incarnation, true, evidence})
		return
	}
	if made, wasMade := d.Memory.Made[name]; wasMade {
		if d.isDue(made.Add(CacheLagMax)) {
			d.plan.Confirm = append(d.plan.Confirm, name)
		}
		return
	}
	if wasSeen && highest >= wanted.Incarnation {
		d.plan.Confirm = append(d.plan.Confirm, name)
		d.wakeAt(d.Now.Add(CacheLagMax))
		return
	}
	mayCreate := d.hasWish() && !d.Stream.Wish.Drain || d.mayMakeFirst()
	if mayCreate && !d.isBeyondTarget(wanted.Index) && !d.waitsForPlace(wanted, pods) {
		d.create(wanted, name)
	}
}

// newestMade returns the last incarnation from this one on that this process has made. Its pod may
// not be in the list yet. Without it, a resumed job's new master would hear that the pod before was
// lost.
func (d *decision) newestMade(id NodeID) NodeID {
	for {
		next := NodeID{id.Index, id.Incarnation + 1}
		if _, wasMade := d.Memory.Made[NodePodName(d.Job.Name, next)]; !wasMade {
			return id
		}
		id = next
	}
}

// tellOfPod: a pod that is Terminating or out of reach may still live, so it is not reported gone.
func (d *decision) tellOfPod(id NodeID, pod *NodePod) {
	switch pod.Phase {
	case Ended:
		d.fact(Fact{id.Index, id.Incarnation, true, orElse(pod.Reason, "ended")})
	case Waiting:
		d.fact(Fact{id.Index, id.Incarnation, false, orElse(pod.Reason, "its pod is starting")})
	case Running:
		d.fact(Fact{id.Index, id.Incarnation, false, ""})
		// A pod that is Terminating has had SIGTERM, and gives notice itself.
		if pod.Leaving != "" && !pod.Terminating {
			d.plan.Notices = append(d.plan.Notices, NodeNotice{id, pod.Leaving})
		}
	}
}

// create plans the pod, unless the API server has just refused one. After a refusal one pod of the
// job is planned; if the API server takes it, the next look plans the others.
func (d *decision) create(id NodeID, name string) {
	if refusal, isRefused := d.Memory.PodRefused[name]; isRefused {
		d.fact(Fact{id.Index, id.Incarnation, false, refusal.Words})
		if d.isDue(refusal.Next) {
			d.plan.Creates = append(d.plan.Creates, id)
		}
		return
	}
	if d.Memory.Refused != nil {
		d.fact(Fact{id.Index, id.Incarnation, false, d.Memory.Refused.Words})
		if len(d.plan.Creates) > 0 || !d.isDue(d.Memory.Refused.Next) {
			return
		}
	}
	d.plan.Creates = append(d.plan.Creates, id)
}

func (d *decision) fact(fact Fact) { d.plan.Facts = append(d.plan.Facts, fact) }

// deleteUnwished deletes the live pods that a higher incarnation replaces, and those of indices
// that are not wished for. The master's wish names them; the operator picks none.
func (d *decision) deleteUnwished(pods map[uint32][]NodePod) {
	for _, index := range sortedIndices(pods) {
		incarnation, isWanted := d.Stream.Wish.Wants(index)
		for _, pod := range pods[index] {
			switch {
			case !pod.isLive():
			case !isWanted:
				d.delete(pod.Pod, "the master does not wish for this node any more")
			case pod.Incarnation < incarnation:
				d.delete(pod.Pod, "the master requests a later incarnation of this node")
			}
		}
	}
}

// dropOldLogs bounds the ended pods of a node.
func (d *decision) dropOldLogs(pods map[uint32][]NodePod) {
	for _, index := range sortedIndices(pods) {
		var ended []NodePod
		for _, pod := range pods[index] {
			if !pod.isLive() {
				ended = append(ended, pod)
			}
		}
		sort.Slice(ended, func(i, j int) bool { return ended[i].Incarnation > ended[j].Incarnation })
		for _, pod := range ended[min(len(ended), EndedPodsMax):] {
			d.delete(pod.Pod, "later pods of this node have ended too")
		}
	}
}

func sortedIndices(pods map[uint32][]NodePod) []uint32 {
	indices := make([]uint32, 0, len(pods))
	for index := range pods {
		indices = append(indices, index)
	}
	sort.Slice(indices, func(i, j int) bool { return indices[i] < indices[j] })
	return indices
}
