package decide

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"paceline.dev/operator/api/v1alpha1"
)

// TestStoresTheEndBeforeItAnswers: the master waits for the answer, and ends then.
func TestStoresTheEndBeforeItAnswers(t *testing.T) {
	s := settled(running())
	s.Stream.Summary = &Summary{Phase: "finished", Nodes: 2, Step: 40, Goodput: 0.91}
	s.Stream.Ended = &End{ExitCode: 0, Reason: "all ranks are done", History: []byte("kept")}
	plan := Decide(s)
	if plan.Status == nil || string(plan.Status.History) != "kept" || !plan.EndKept {
		t.Fatalf("wanted the history stored, then the answer: %+v", plan)
	}
	if plan.Status.Step != "40" || plan.Status.Goodput != "91.0%" || *plan.Status.ExitCode != 0 {
		t.Errorf("wanted the numbers of the end, got %+v", plan.Status)
	}
	s.Job.Status = *plan.Status
	if plan = Decide(s); !plan.EndKept || plan.Status != nil {
		t.Errorf("wanted the answer again, and no write: %+v", plan)
	}
	s.Stream.Connected = false
	if plan = Decide(s); plan.EndKept {
		t.Error("nobody waits for an answer any more")
	}
}

// TestTheTerminationMessageDoesNotHideTheHistory: the pod's end may be seen before the stream's.
func TestTheTerminationMessageDoesNotHideTheHistory(t *testing.T) {
	s := settled(running())
	s.Stream.Connected = false
	s.Stream.Ended = &End{ExitCode: 1, Reason: "the script fails", History: []byte("kept")}
	code := int32(1)
	s.Masters[0].Phase, s.Masters[0].ExitCode = Ended, &code
	s.Masters[0].Final = &End{ExitCode: 1, Reason: "the script fails"}
	if plan := Decide(s); plan.Status == nil || string(plan.Status.History) != "kept" {
		t.Fatalf("wanted the history: %+v", plan.Status)
	}
}

func TestAnEndThatTheNextMasterGoesOnFromIsAnsweredAtOnce(t *testing.T) {
	s := settled(running())
	s.Stream.Ended = &End{ExitCode: exitSaved, Reason: "the job was suspended"}
	s.Job.Suspend = true
	if plan := Decide(s); !plan.EndKept || plan.Status != nil && len(plan.Status.History) > 0 {
		t.Errorf("wanted an answer and no history: %+v", plan)
	}
}

func TestSaysWhyAJobThatHasNotStartedWaits(t *testing.T) {
	image := running()
	image.Stream, image.Nodes = Stream{}, nil
	image.Masters[0].Phase = Waiting
	image.Masters[0].Reason = "ImagePullBackOff: Back-off pulling image \"me/trian:7\""
	quota := running()
	quota.Masters, quota.Nodes, quota.Stream = nil, nil, Stream{}
	quota.Memory.TermRaised = 1
	quota.Memory.Refused = &Refusal{Words: "pods \"train-master-1\" is forbidden: exceeded quota: q",
		Next: quota.Now.Add(time.Second)}
	nodes := running()
	nodes.Nodes = []NodePod{node(0, 0, Waiting)}
	nodes.Nodes[0].Reason = "Unschedulable: 0/3 nodes are available"
	nodes.Stream.Summary = &Summary{Phase: "waiting"}
	for words, s := range map[string]Snapshot{"ImagePullBackOff": image, "exceeded quota": quota,
		"node0: Unschedulable": nodes} {
		plan := Decide(s)
		if plan.Status == nil || !strings.Contains(plan.Status.Last, words) {
			t.Errorf("LAST has no %q: %+v", words, plan.Status)
		}
		for _, event := range plan.Events {
			if event.Reason == "Failure" {
				t.Errorf("a reason to wait is no failure: %+v", event)
			}
		}
	}
}

func TestKeepsTheLastKnownNumbersWhileALaterMasterTakesOver(t *testing.T) {
	s := settled(running())
	s.Masters = []MasterPod{{Pod: pod("train-master-2", Running), Term: 2, Address: "10.0.0.2:29400"}}
	s.Job.Status.MasterTerm = 2
	s.Memory.Since = s.Now
	check := func(what string, isMarked bool, nodes string) {
		t.Helper()
		s.Now = s.Now.Add(6 * time.Second)
		if plan := Decide(s); plan.Status != nil {
			s.Job.Status = *plan.Status
		}
		isRunning := meta.IsStatusConditionTrue(s.Job.Status.Conditions, v1alpha1.ConditionRunning)
		if s.Job.Status.Nodes != nodes || (s.Job.Status.State == "NewMaster") != isMarked ||
			isMarked && !isRunning {
			t.Errorf("%s: %s %s, running %v", what, s.Job.Status.Nodes, s.Job.Status.State, isRunning)
		}
	}
	s.Stream = Stream{}
	check("the master is not heard yet", true, "2/2")
	s.Stream = Stream{Term: 2, Connected: true, Heard: s.Now, Wish: &Wish{Seq: 9, Size: 2, Spares: 1},
		Summary: &Summary{Phase: "waiting"}}
	check("it has not heard its nodes", true, "2/2")
	known := s
	s.Stream.Summary = &Summary{Phase: "running", Nodes: 2, Spares: 1, Step: 9}
	check("it has heard them", false, "2/2")
	s = known
	s.Now = s.Now.Add(TakeOverMax)
	check("no node came in time", false, "0/2")
}
