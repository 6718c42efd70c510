package decide

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"paceline.dev/operator/api/v1alpha1"
)

func TestColumns(t *testing.T) {
	status := settled(running()).Job.Status
	got := strings.Join([]string{status.Nodes, status.Spares, status.Step, status.Goodput,
		status.State}, " ")
	if got != "2/2 1/1 7 97.4% Running" {
		t.Errorf("columns: %s", got)
	}
}

func TestAResumedJobIsDescribedAnew(t *testing.T) {
	s := settled(running())
	s.Job.Suspend, s.Nodes, s.Masters, s.Stream = true, nil, nil, Stream{}
	s = settled(s)
	if s.Job.Status.State != "Suspended" {
		t.Fatalf("got %+v", s.Job.Status)
	}
	s.Job.Suspend = false
	s = settled(s)
	if status := s.Job.Status; status.State != "Starting" || status.Nodes != "0/2" ||
		status.MasterTerm != 2 {
		t.Fatalf("got %+v", status)
	}
	again := running()
	s.Nodes, s.Masters, s.Stream = again.Nodes, again.Masters, again.Stream
	s.Masters[0].Term, s.Stream.Term = 2, 2
	s.Stream.Summary.Step, s.Stream.Summary.Memo = 99, "memo"
	if status := settled(s).Job.Status; status.State != "Running" || status.Step != "99" ||
		status.Nodes != "2/2" || status.Memo != "memo" {
		t.Errorf("got %+v", status)
	}
}

func TestStepsAreWrittenSeldom(t *testing.T) {
	s := settled(running())
	s.Memory.StatusWritten = s.Now
	s.Stream.Summary.Step = 8
	plan := Decide(s)
	if plan.Status != nil || plan.Next != s.Now.Add(StepInterval) {
		t.Errorf("wanted no write yet, got %+v", plan)
	}
	s.Stream.Summary.Nodes = 1 // Degraded is written at once
	if plan = Decide(s); condition(t, plan, v1alpha1.ConditionDegraded).Status !=
		metav1.ConditionTrue || plan.Status.State != "Degraded" {
		t.Errorf("got %+v", plan.Status)
	}
}

func TestAMemoIsKept(t *testing.T) {
	s := settled(running())
	s.Stream.Summary.Memo = `{"charged_failures":1}`
	plan := Decide(s)
	if plan.Status == nil || plan.Status.Memo != s.Stream.Summary.Memo {
		t.Fatalf("got %+v", plan.Status)
	}
	s.Job.Status = *plan.Status
	s.Stream.Summary.Memo = strings.Repeat("x", MemoMax+1)
	if plan = Decide(s); plan.Status != nil {
		t.Errorf("a memo that is too long was taken: %+v", plan.Status)
	}
	s.Stream = Stream{}
	if plan = Decide(s); plan.Status != nil && plan.Status.Memo == "" {
		t.Error("a master that is not heard has no memo to forget")
	}
}

func TestAStatusThatTheServerDropsIsNotWrittenForEver(t *testing.T) {
	s := settled(running())
	s.Stream.Summary.Memo = "memo"
	written := Decide(s).Status
	s.Memory.Dropped = written // the job still has the status without the memo
	if plan := Decide(s); plan.Status != nil {
		t.Errorf("got %+v", plan.Status)
	}
	s.Stream.Summary.Last = "node1 lost"
	if plan := Decide(s); plan.Status == nil {
		t.Error("a change is written")
	}
}

func TestSeenComesBackFromTheStatus(t *testing.T) {
	before := seen{0: 0, 1: 2, 2: 0, 5: 0, 7: 1}
	after := fromStatus(before.toStatus())
	if len(after) != len(before) {
		t.Fatalf("got %v", after)
	}
	for index, incarnation := range before {
		if after[index] != incarnation {
			t.Errorf("index %d: %d", index, after[index])
		}
	}
}

func TestExcludedHostsStayInTheStatusUntilTheNextMasterSpeaks(t *testing.T) {
	s := running()
	s.Stream.Wish.Excluded = []string{"host1"}
	plan := Decide(s)
	if plan.Status == nil || !slices.Equal(plan.Status.ExcludedHosts, []string{"host1"}) ||
		!slices.Equal(plan.Excluded, []string{"host1"}) {
		t.Fatalf("%+v", plan)
	}
	s.Job.Status = *plan.Status
	s.Job.Status.MasterTerm++
	s.Job.Status.State = "" // so that there is something to write
	if plan = Decide(s); plan.Status == nil ||
		!slices.Equal(plan.Status.ExcludedHosts, []string{"host1"}) {
		t.Errorf("%+v", plan.Status)
	}
}
