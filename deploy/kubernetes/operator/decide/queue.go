package decide

// closeGroup says that the group of the queue gets no further pod. The queue then gives the room
// back when the pods have ended.
func (d *decision) closeGroup() {
	for _, pod := range d.allPods() {
		if pod.Group {
			d.plan.Closes = append(d.plan.Closes, pod.Name)
		}
	}
}

// waitsForPlace says whether the node cannot be made yet, and plans that it is made alone if its
// place does not get free.
func (d *decision) waitsForPlace(id NodeID, pods []NodePod) bool {
	isTaken, isOverdue := d.isTaken(id, pods)
	if !isTaken {
		return false
	}
	if isOverdue {
		d.plan.Alone = append(d.plan.Alone, id)
		return false
	}
	d.fact(Fact{id.Index, id.Incarnation, false, "its pod before has not ended yet, and the queue " +
		"would count both"})
	d.wakeAt(d.Now.Add(TerminatingInterval)) // nobody tells when the pod is overdue
	return true
}

// isTaken says whether the place of the node in the queue's group is taken by a pod that lives. The
// queue would delete a second pod of that place. Such a pod mostly ends within its grace period, so
// it is waited for. One that is overdue is on a host that is away, and the next one is made alone.
func (d *decision) isTaken(id NodeID, pods []NodePod) (isTaken, isOverdue bool) {
	if !d.Job.Queued || int64(id.Index) >= int64(d.Job.NodesMin) {
		return false, false
	}
	for _, pod := range pods {
		if pod.Group && pod.isLive() && pod.Incarnation < id.Incarnation {
			isTaken, isOverdue = true, isOverdue || pod.Overdue
		}
	}
	return isTaken, isOverdue
}

// isMasterTaken says the same of the place of the master.
func (d *decision) isMasterTaken() bool {
	for _, master := range d.Masters {
		if d.Job.Queued && master.Group && master.isLive() {
			return true
		}
	}
	return false
}

// isEvicted says whether the queue took the room of all of the job. No master can wish for nodes
// before the group is whole again.
func (d *decision) isEvicted() bool {
	master := d.currentMaster()
	return d.Job.Queued && (master == nil || master.Phase == Waiting) && !d.hasRunningNode()
}
