package decide

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"paceline.dev/operator/api/v1alpha1"
)

// scalable is running() with room for 1 to 8 nodes, and a target on which both agreed.
func scalable(target int32) Snapshot {
	s := running()
	s.Job.NodesMin, s.Job.NodesMax, s.Job.Target, s.Job.Status.Target = 1, 8, target, target
	s.Stream.Wish.Size, s.Stream.Summary.TakesSize = 8, true
	if target != 8 {
		s.Stream.Summary.Size = uint32(target)
	}
	return s
}

// master takes what it is told, and the API server what is written.
func (s *Snapshot) carryOut(plan Plan) {
	if plan.Status != nil {
		s.Job.Status = *plan.Status
	}
	if plan.Size != 0 {
		s.Stream.Summary.Size, s.Stream.Summary.SizeIsMeasured = plan.Size, false
	}
	if plan.SetTarget != 0 {
		s.Job.Target = plan.SetTarget
	}
}

func eventsOf(plan Plan, reason string) []string {
	var texts []string
	for _, event := range plan.Events {
		if event.Reason == reason {
			texts = append(texts, event.Text)
		}
	}
	return texts
}

func TestAnUnsetTargetIsFilled(t *testing.T) {
	for name, test := range map[string]struct {
		agreed int32
		chosen uint32
		want   int32
	}{
		"a new job": {0, 0, 8}, "it was scaled by the command": {0, 3, 3},
		"the field was removed": {5, 5, 5}, "the master has lost its history": {5, 0, 5},
	} {
		s := scalable(8)
		s.Job.Target, s.Job.Status.Target, s.Stream.Summary.Size = 0, test.agreed, test.chosen
		if plan := Decide(s); plan.SetTarget != test.want || plan.Size != 0 {
			t.Errorf("%s: set to %d, and %d told", name, plan.SetTarget, plan.Size)
		}
	}
	s := Snapshot{Now: start, Job: Job{Name: "train", NodesMin: 1, NodesMax: 8, Suspend: true}}
	if plan := Decide(s); plan.SetTarget != 8 {
		t.Errorf("a suspended job has no target: %+v", plan)
	}
}

// A number that a user chose ends the choice by measurement, so a job that nobody scaled is left.
func TestTheMasterIsNotToldTheTargetOfAJobThatNobodyScaled(t *testing.T) {
	s := scalable(8)
	for _, measured := range []uint32{0, 2} {
		s.Stream.Summary.Size, s.Stream.Summary.SizeIsMeasured = measured, measured != 0
		if plan := Decide(s); plan.Size != 0 || plan.SetTarget != 0 {
			t.Errorf("measured %d: %d told, set to %d", measured, plan.Size, plan.SetTarget)
		}
	}
}

func TestTheNewerChangeHolds(t *testing.T) {
	s := scalable(8)
	s.Job.Target = 4 // kubectl scale
	plan := Decide(s)
	if plan.Size != 4 || plan.SetTarget != 0 || len(plan.Deletes) > 0 {
		t.Fatalf("kubectl scale: %+v", plan)
	}
	s.carryOut(plan)
	plan = Decide(s)
	if plan.Size != 0 || plan.SetTarget != 0 || plan.Status == nil || plan.Status.Target != 4 {
		t.Fatalf("agreed: %+v", plan)
	}
	s.carryOut(plan)
	s.Stream.Summary.Size = 6 // paceline scale
	if plan = Decide(s); plan.Size != 0 || plan.SetTarget != 6 {
		t.Fatalf("paceline scale: %+v", plan)
	}
	s.carryOut(plan)
	s.carryOut(Decide(s))
	s.Job.Target = 4 // the number of before, which was told once
	if plan = Decide(s); plan.Size != 4 || plan.SetTarget != 0 || s.Job.Status.Target != 6 {
		t.Fatalf("kubectl scale again: %+v, agreed on %d", plan, s.Job.Status.Target)
	}
	s.Stream.Summary.Size = 3 // and paceline scale before the master heard of it
	if plan = Decide(s); plan.Size != 4 || plan.SetTarget != 0 {
		t.Errorf("both changed: %+v", plan)
	}
}

// The next master has the number from the journal, or is told it.
func TestATargetOutlivesTheMaster(t *testing.T) {
	s := scalable(4)
	s.Stream.Summary = nil
	if plan := Decide(s); plan.Size != 0 || plan.SetTarget != 0 {
		t.Errorf("a master that was not heard: %+v", plan)
	}
	s.Stream.Summary = &Summary{Phase: "waiting"} // it waits for the history
	if plan := Decide(s); plan.Size != 0 || plan.SetTarget != 0 {
		t.Errorf("a master without history yet: %+v", plan)
	}
	s.Stream.Summary = &Summary{Phase: "running", TakesSize: true}
	if plan := Decide(s); plan.Size != 4 || plan.SetTarget != 0 {
		t.Errorf("a master whose history is lost: %+v", plan)
	}
	s.Stream.Summary.Size = 4
	if plan := Decide(s); plan.Size != 0 || plan.SetTarget != 0 {
		t.Errorf("a master with the history: %+v", plan)
	}
}

func TestARefusedTargetIsTold(t *testing.T) {
	s := scalable(8)
	s.Job.Target = 4
	s.Stream.Summary.SizeRefused, s.Stream.Summary.Refusal = 4, "each rank has its own parameters"
	plan := Decide(s)
	told := condition(t, plan, v1alpha1.ConditionTargetTaken)
	if told.Status != metav1.ConditionFalse || told.Reason != "Refused" ||
		!strings.Contains(told.Message, "cannot have 4 nodes: each rank has its own parameters") ||
		plan.Size != 0 || plan.SetTarget != 0 || len(eventsOf(plan, "TargetNotTaken")) != 1 {
		t.Fatalf("%+v, %+v", told, plan)
	}
	s.carryOut(plan)
	if again := eventsOf(Decide(s), "TargetNotTaken"); len(again) > 0 {
		t.Errorf("told again: %v", again)
	}
	s.Stream.Summary.Size = 6 // paceline scale meanwhile: that number holds
	if plan = Decide(s); plan.SetTarget != 6 {
		t.Errorf("%+v", plan)
	}
	s.Stream.Summary.Size, s.Job.Target = 0, 8 // the user takes it back
	if told = condition(t, Decide(s), v1alpha1.ConditionTargetTaken); told.Status !=
		metav1.ConditionTrue {
		t.Errorf("%+v", told)
	}
}

func TestAMasterOfAnOlderReleaseTakesNoTarget(t *testing.T) {
	s := scalable(4)
	s.Stream.Summary.TakesSize, s.Stream.Summary.Size, s.Job.Status.Target = false, 0, 0
	plan := Decide(s)
	if told := condition(t, plan, v1alpha1.ConditionTargetTaken); told.Reason != "OlderRelease" ||
		plan.Size != 0 {
		t.Errorf("%+v, %+v", told, plan)
	}
	s.Job.Target = 8 // nobody asked for anything
	if plan = Decide(s); plan.Status != nil && meta.FindStatusCondition(plan.Status.Conditions,
		v1alpha1.ConditionTargetTaken) != nil {
		t.Errorf("%+v", plan.Status.Conditions)
	}
}

// A job that begins with fewer nodes than its maximum makes no pods that would be deleted at once.
func TestNoPodIsMadeAboveATargetThatTheMasterDoesNotKnow(t *testing.T) {
	s := scalable(3)
	s.Stream.Summary, s.Job.Status.Target = nil, 0
	made := func() []NodeID { return Decide(s).Creates }
	if got := made(); len(got) != 1 || got[0].Index != 3 { // 3 nodes and a spare
		t.Errorf("without a summary: %v", got)
	}
	s.Stream.Summary = &Summary{Phase: "waiting", TakesSize: true}
	if got := made(); len(got) != 1 {
		t.Errorf("before it is told: %v", got)
	}
	s.Stream.Summary.SizeRefused = 3
	if got := made(); len(got) != 6 {
		t.Errorf("refused: %v", got)
	}
	s.Stream.Summary.SizeRefused, s.Stream.Summary.Size = 0, 3
	if got := made(); len(got) != 6 { // the wish alone says what is needed
		t.Errorf("taken: %v", got)
	}
}

func TestColumnsOfAScaledJob(t *testing.T) {
	s := scalable(2)
	s.Job.Selector = "a=b"
	status := settled(s).Job.Status
	if status.Nodes != "2/2" || status.State != "Running" || status.Replicas != 2 ||
		status.Selector != "a=b" || status.Target != 2 {
		t.Errorf("got %+v", status)
	}
	s.Stream.Summary.Size, s.Job.Target = 3, 3
	if status = settled(s).Job.Status; status.Nodes != "2/3" || status.State != "Degraded" {
		t.Errorf("got %+v", status)
	}
}
