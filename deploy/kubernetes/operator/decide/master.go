package decide

import (
	"fmt"
	"time"

	"paceline.dev/operator/api/v1alpha1"
)

// Exit codes of paceline run that are the job's result (docs/errors.md). After any other one the
// next master goes on with the job.
var finalExitCodes = map[int32]string{
	0:  "The job is done.",
	1:  "Training failed. The master's log says why.",
	2:  "paceline run refused its flags or did not find the script. The master's log says why.",
	4:  "The master refused the job's credentials. The master's log says why.",
	11: "Training is done, but the last saved step is in memory only.",
	93: "The script asked not to be started again.",
}

const (
	// The job was stopped from outside and has saved its newest step. It goes on from there.
	exitSaved = 10
	// The master got SIGTERM: from `paceline stop`, or because its pod is being ended.
	exitTerminated = 143
)

// isFinal says whether the master's last word ends the job. A master whose pod is ended from
// outside may say that the job was terminated; the next master goes on with it.
func (d *decision) isFinal(end *End, master *MasterPod) bool {
	if end == nil || end.ExitCode == exitSaved {
		return false
	}
	if end.ExitCode != exitTerminated {
		return true
	}
	if master == nil || master.Terminating || master.Disrupted {
		return false
	}
	// A deletion precedes the end that it causes, so an ended pod shows whether it was deleted.
	return master.Phase == Ended || d.isDue(d.Stream.Heard.Add(CacheLagMax))
}

// running keeps a job going: Secrets, then the master of the current term, then what that master
// wishes for.
func (d *decision) running() {
	if d.isTrue(v1alpha1.ConditionSuspended) {
		d.setCondition(v1alpha1.ConditionSuspended, false, "Resumed", "The job was resumed.")
		d.status.State, d.status.Nodes, d.status.Spares = "", "", "" // of the master before
		d.status.Replicas = 0
		d.begin()
		return
	}
	if d.Job.Status.MasterTerm == 0 {
		d.begin()
		return
	}
	if !d.Memory.HasSecrets {
		d.plan.EnsureSecrets = d.mayMake()
		d.showRefusal("SecretsRefused")
		return
	}
	d.plan.EnsureService = d.Memory.ServiceTerm != d.Job.Status.MasterTerm && d.mayMake()
	for _, master := range d.Masters {
		if master.Term < d.Job.Status.MasterTerm && master.isLive() {
			d.delete(master.Pod, "a later master has taken over")
		}
	}
	if d.isHeard() && d.isFinal(d.Stream.Ended, d.currentMaster()) {
		d.finish(*d.Stream.Ended)
		return
	}
	// The next master goes on with a job that was stopped from outside: there is nothing to store.
	d.plan.EndKept = d.hasEndToAnswer() && d.Stream.Ended.ExitCode == exitSaved
	if d.lookAfterMaster() {
		if d.mayMakeFirst() {
			d.makeFirstNodes()
		}
		d.lookAfterNodes()
	}
}

// isHeard says whether the stream is that of the current term's master.
func (d *decision) isHeard() bool {
	return d.Stream.Term != 0 && d.Stream.Term == d.Job.Status.MasterTerm
}

// hasWish says whether the current master's wish may be acted on. The last wish of a master whose
// stream broke holds until the stream counts as silent.
func (d *decision) hasWish() bool {
	return d.isHeard() && d.Stream.Wish != nil && (d.Stream.Connected || !d.isSilent())
}

// isSilent is the first witness of a lost master.
func (d *decision) isSilent() bool {
	heard := d.Memory.Since
	if d.isHeard() && d.Stream.Heard.After(heard) {
		heard = d.Stream.Heard
	}
	return d.isDue(heard.Add(StreamSilentAfter))
}

func (d *decision) currentMaster() *MasterPod {
	for i := range d.Masters {
		if d.Masters[i].Term == d.Job.Status.MasterTerm {
			return &d.Masters[i]
		}
	}
	return nil
}

// lookAfterMaster returns true if the job goes on under the current master.
func (d *decision) lookAfterMaster() bool {
	master := d.currentMaster()
	if master == nil {
		return d.lookForMaster()
	}
	if master.Terminating && master.isLive() {
		d.wakeAt(d.Now.Add(TerminatingInterval)) // nobody tells that the pod's node went away
	}
	switch {
	case master.Phase == Ended:
		return d.masterEnded(master)
	case master.Terminating && (master.HostLost || master.Overdue):
		return d.masterLost("is on a node that is away, and its pod does not end", 0)
	case master.Phase == Waiting:
		d.masterReason, d.masterMessage = "MasterWaits", orElse(master.Reason,
			"The master's pod has not started yet.")
	default:
		d.masterReason, d.masterMessage = "MasterUnheard", orElse(d.Stream.Problem,
			"The master's pod runs and has not answered yet.")
	}
	d.dial(master)
	return true
}

// lookForMaster decides what it means that the list has no pod of the current term.
func (d *decision) lookForMaster() bool {
	name := MasterName(d.Job.Name, d.Job.Status.MasterTerm)
	if evidence, isGone := d.Memory.Gone[name]; isGone {
		return d.masterLost(evidence, 0)
	}
	if made, wasMade := d.Memory.Made[name]; wasMade {
		d.masterReason, d.masterMessage = "MasterWaits", "The master's pod was made."
		if d.isDue(made.Add(CacheLagMax)) {
			d.plan.Confirm = append(d.plan.Confirm, name)
		}
		return true
	}
	if d.Memory.TermRaised == d.Job.Status.MasterTerm {
		d.plan.CreateMaster = d.mayMake()
		d.plan.MasterAlone = d.isMasterTaken()
		d.plan.Survivors = d.survivors()
		d.showRefusal("MasterRefused")
		return true
	}
	// Another operator raised this term. Its pod may have been made and may be gone again, so this
	// operator does not make it: a term must not have two masters.
	d.masterReason, d.masterMessage = "MasterUnknown", "The operator looks for the master's pod."
	d.plan.Confirm = append(d.plan.Confirm, name)
	d.wakeAt(d.Now.Add(CacheLagMax))
	return true
}

// survivors counts the nodes that run. One whose pod is being ended may be out of reach.
func (d *decision) survivors() int {
	count := 0
	for _, node := range d.Nodes {
		if node.Phase == Running && !node.Terminating {
			count++
		}
	}
	return count
}

// masterEnded tells the end of the job from the end of one master.
func (d *decision) masterEnded(master *MasterPod) bool {
	if d.isFinal(master.Final, master) {
		d.finish(*master.Final)
		return false
	}
	if master.ExitCode != nil && !master.Disrupted && !master.Terminating {
		if sentence, isResult := finalExitCodes[*master.ExitCode]; isResult {
			d.finish(End{ExitCode: *master.ExitCode, Reason: sentence})
			return false
		}
	}
	isShort := !master.Disrupted && !master.Terminating &&
		master.EndedAt.Sub(master.Created) < ShortMasterLife
	if !isShort {
		d.status.ShortMasters = 0
		return d.masterLost(master.Reason, 0)
	}
	shorts := d.Job.Status.ShortMasters + 1
	if shorts >= ShortMastersMax {
		d.fail("MasterUnavailable", fmt.Sprintf("%d masters in a row ended within a minute. The last "+
			"one %s.", shorts, trimDot(master.Reason)))
		return false
	}
	if !d.isDue(master.EndedAt.Add(masterPause(shorts))) {
		d.masterReason, d.masterMessage = "MasterEnded", sentenceOf(master.Reason)
		return false
	}
	return d.masterLost(master.Reason, shorts)
}

// masterPause is how long the operator waits after so many short masters: 0, 2, 4, 8 … seconds.
func masterPause(shorts int32) time.Duration {
	if shorts <= 1 {
		return 0
	}
	pause := time.Second << min(shorts-1, 6)
	return min(pause, MasterPauseMax)
}

// masterLost is the second witness. With the first one the next term begins. If the kubelet says
// that the container ended, then a stream that broke is witness enough: nothing lives there that
// could be silent.
func (d *decision) masterLost(evidence string, shorts int32) bool {
	d.masterReason, d.masterMessage = "MasterLost", sentenceOf(evidence)
	master := d.currentMaster()
	hasEnded := master != nil && master.Phase == Ended
	if hasEnded && !(d.isHeard() && d.Stream.Connected) || d.isSilent() {
		d.raise(shorts)
	}
	return false
}

// sentenceOf makes a sentence of what happened to the master, such as "ended with exit code 1".
func sentenceOf(evidence string) string {
	return "The master " + orElse(trimDot(evidence), "is gone") + "."
}

func (d *decision) raise(shorts int32) {
	d.status.MasterTerm = d.Job.Status.MasterTerm + 1
	d.status.ShortMasters = shorts
	d.plan.Raised = d.status.MasterTerm
	text := fmt.Sprintf("Master %d is started.", d.plan.Raised)
	if d.masterMessage != "" {
		text = d.masterMessage + " " + text
	}
	d.event(d.plan.Raised > 1 && d.masterMessage != "", "MasterStarted", text)
}

func (d *decision) dial(master *MasterPod) {
	if master.Phase == Running {
		d.plan.Dial = master.Address
	}
}

// mayMake says whether the API server may be asked again after it refused.
func (d *decision) mayMake() bool {
	return d.Memory.Refused == nil || d.isDue(d.Memory.Refused.Next)
}

func (d *decision) showRefusal(reason string) {
	if d.Memory.Refused != nil {
		d.masterReason, d.masterMessage = reason, d.Memory.Refused.Words
	} else if d.currentMaster() == nil { // an operator that takes over looks for the Secrets first
		d.masterReason, d.masterMessage = "MasterStarting", "The master's pod is being made."
	}
}
