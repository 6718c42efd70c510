package decide

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"paceline.dev/operator/api/v1alpha1"
)

func TestRaisesTheTermBeforeItMakesTheMaster(t *testing.T) {
	s := Snapshot{Now: start, Job: Job{Name: "train", NodesMax: 2}, Memory: Memory{Since: start}}
	plan := Decide(s)
	if plan.Raised != 1 || plan.Status.MasterTerm != 1 || plan.CreateMaster {
		t.Fatalf("wanted term 1 and no pod yet, got %+v", plan)
	}
	s.Job.Status, s.Memory.TermRaised = *plan.Status, 1
	if plan = Decide(s); !plan.EnsureSecrets || plan.CreateMaster {
		t.Fatalf("wanted the Secrets first, got %+v", plan)
	}
	s.Memory.HasSecrets = true
	if plan = Decide(s); !plan.CreateMaster || !plan.EnsureService {
		t.Fatalf("wanted the master and its Service, got %+v", plan)
	}
}

func TestMakesNoMasterOfATermThatAnotherOperatorRaised(t *testing.T) {
	s := running()
	s.Masters, s.Nodes, s.Stream = nil, nil, Stream{}
	plan := Decide(s)
	if plan.CreateMaster || len(plan.Confirm) != 1 {
		t.Fatalf("wanted a question about the pod, got %+v", plan)
	}
	s.Memory.Gone = map[string]string{"train-master-1": "was deleted"}
	if plan = Decide(s); plan.Raised != 2 {
		t.Fatalf("wanted term 2, got %+v", plan)
	}
}

func TestTheNextMasterIsToldWhoLives(t *testing.T) {
	s := running()
	s.Memory.TermRaised = 1
	s.Masters, s.Stream = nil, Stream{}
	s.Nodes = []NodePod{node(0, 2, Running), node(1, 0, Running), node(2, 0, Waiting), node(3, 0, Ended)}
	s.Nodes[1].Terminating = true
	plan := Decide(s)
	if !plan.CreateMaster || plan.Survivors != 1 {
		t.Errorf("wanted a master that waits for one node, got %+v", plan)
	}
}

func TestNeverMakesAMasterTwice(t *testing.T) {
	s := running()
	s.Memory.TermRaised = 1 // this operator raised the term, and made the pod
	s.Memory.Made = map[string]time.Time{"train-master-1": start}
	s.Masters, s.Stream = nil, Stream{}
	plan := Decide(s)
	if plan.CreateMaster || plan.Raised != 0 || len(plan.Confirm) != 1 {
		t.Errorf("wanted a question about the pod, got %+v", plan)
	}
}

func TestAMasterIsReplacedByTwoWitnessesOnly(t *testing.T) {
	silent := func(s *Snapshot) { s.Stream.Connected, s.Stream.Heard = false, start }
	for name, test := range map[string]struct {
		change func(*Snapshot)
		next   int64
	}{
		"all is well":           {func(*Snapshot) {}, 0},
		"silent, the pod runs":  {silent, 0},
		"gone, but it is heard": {func(s *Snapshot) { s.Masters = nil; s.gone() }, 0},
		"gone and silent":       {func(s *Snapshot) { s.Masters = nil; s.gone(); silent(s) }, 2},
		"missing and silent":    {func(s *Snapshot) { s.Masters = nil; silent(s) }, 0},
		"Terminating and silent": {func(s *Snapshot) {
			s.Masters[0].Terminating = true
			silent(s)
		}, 0},
		"Terminating, node away":  {func(s *Snapshot) { s.away(); silent(s) }, 2},
		"the same, but it speaks": {func(s *Snapshot) { s.away() }, 0},
		"evicted, stream broken": {func(s *Snapshot) {
			s.Masters[0].Phase, s.Masters[0].Disrupted = Ended, true
			s.Stream.Connected = false
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := running()
			test.change(&s)
			plan := Decide(s)
			if plan.Raised != test.next {
				t.Errorf("raised %d, wanted %d: %+v", plan.Raised, test.next, plan)
			}
			if len(plan.Creates)+len(plan.Deletes) > 0 || plan.CreateMaster {
				t.Errorf("wanted no change of pods, got %+v", plan)
			}
		})
	}
}

func (s *Snapshot) gone() { s.Memory.Gone = map[string]string{"train-master-1": "was deleted"} }

func (s *Snapshot) away() { s.Masters[0].Terminating, s.Masters[0].HostLost = true, true }

func TestAMasterThatDoesNotEndIsLookedAtAgain(t *testing.T) {
	s := running()
	s.Masters[0].Terminating = true
	if plan := Decide(s); plan.Next.After(s.Now.Add(TerminatingInterval)) || plan.Next.IsZero() {
		t.Errorf("next look: %v", plan.Next)
	}
}

func TestAnOldMasterIsDeleted(t *testing.T) {
	s := running()
	s.Masters = append(s.Masters, MasterPod{Pod: pod("train-master-0", Running), Term: 0})
	plan := Decide(s)
	if len(plan.Deletes) != 1 || plan.Deletes[0].Name != "train-master-0" {
		t.Errorf("deletes: %+v", plan.Deletes)
	}
}

func TestTheLastOrderEndsTheJobForGood(t *testing.T) {
	s := running()
	s.Stream.Ended = &End{ExitCode: 0, Reason: "All steps are done."}
	plan := Decide(s)
	wantNoChange(t, plan)
	if got := condition(t, plan, v1alpha1.ConditionComplete); got.Status != metav1.ConditionTrue ||
		got.Message != "All steps are done." {
		t.Errorf("condition: %+v", got)
	}
	ttl := time.Minute
	s.Job.Status, s.Job.TTL, s.Stream = *plan.Status, &ttl, Stream{}
	s.Nodes[0].Phase, s.Nodes[1].Phase, s.Masters = Ended, Waiting, nil
	plan = Decide(s)
	if len(plan.Deletes) != 1 || plan.Deletes[0].Name != "train-node1-0" || plan.Status != nil {
		t.Errorf("wanted that only the waiting pod goes, got %+v", plan)
	}
	s.Now = s.Now.Add(EndGrace)
	if plan = Decide(s); len(plan.Deletes) != 2 || plan.DeleteJob {
		t.Errorf("wanted that the running pod goes too, got %+v", plan)
	}
	s.Nodes, s.Now = nil, s.Now.Add(ttl)
	if plan = Decide(s); !plan.DeleteJob || len(plan.Creates) > 0 || plan.CreateMaster {
		t.Errorf("wanted that the job is deleted, got %+v", plan)
	}
}

func TestExitCodesOfTheMaster(t *testing.T) {
	for _, test := range []struct {
		code   int32
		final  *End
		state  string
		raised int64
	}{
		{0, nil, "Complete", 0},
		{1, nil, "Failed", 0},
		{137, nil, "", 2},
		{10, nil, "", 2},
		{137, &End{ExitCode: 3, Reason: "The budget is used up."}, "Failed", 0},
		{10, &End{ExitCode: 10}, "", 2},
		{143, &End{ExitCode: 143}, "Failed", 0}, // paceline stop
	} {
		s := running()
		s.Masters[0].Phase, s.Masters[0].ExitCode, s.Masters[0].Final = Ended, &test.code, test.final
		s.Masters[0].EndedAt = start.Add(2 * time.Minute)
		s.Stream.Connected = false
		plan := Decide(s)
		if plan.Raised != test.raised || test.state != "" && plan.Status.State != test.state {
			t.Errorf("exit code %d, %+v: %+v", test.code, test.final, plan.Status)
		}
	}
}

func TestAMasterWhosePodIsEndedFromOutsideDoesNotEndTheJob(t *testing.T) {
	s := running()
	s.Stream.Ended, s.Stream.Connected = &End{ExitCode: 143, Reason: "stopped by SIGTERM"}, false
	s.Stream.Heard = s.Now
	if plan := Decide(s); plan.Status != nil && plan.Status.ExitCode != nil {
		t.Errorf("the cache had no time to show the deletion: %+v", plan.Status)
	}
	for name, change := range map[string]func(*Snapshot){
		"Terminating": func(s *Snapshot) { s.Masters[0].Terminating = true },
		"evicted":     func(s *Snapshot) { s.Masters[0].Disrupted, s.Masters[0].Phase = true, Ended },
		"gone":        func(s *Snapshot) { s.Masters = nil; s.gone() },
	} {
		t.Run(name, func(t *testing.T) {
			s := s
			s.Masters = append([]MasterPod(nil), s.Masters...)
			s.Now = s.Now.Add(StreamSilentAfter)
			change(&s)
			plan := Decide(s)
			if plan.Status != nil && plan.Status.ExitCode != nil ||
				(plan.Raised == 2) != (name != "Terminating") {
				t.Errorf("got %+v", plan)
			}
		})
	}
	s.Now = s.Now.Add(CacheLagMax)
	if plan := Decide(s); plan.Status == nil || plan.Status.State != "Failed" {
		t.Errorf("a job that was stopped has ended: %+v", plan.Status)
	}
}

func TestAMasterThatCannotStartIsTriedLessOften(t *testing.T) {
	s := running()
	code := int32(128)
	s.Stream, s.Nodes = Stream{}, nil
	s.Masters[0].Phase, s.Masters[0].ExitCode = Ended, &code
	s.Masters[0].Reason = "exec: paceline: executable file not found in $PATH"
	s.Masters[0].EndedAt = start.Add(time.Second)
	s.Now = start.Add(2 * time.Second)
	for shorts, wanted := range map[int32]bool{0: true, 1: false, 3: false} {
		s.Job.Status.ShortMasters = shorts
		if plan := Decide(s); (plan.Raised == 2) != wanted {
			t.Errorf("after %d short masters: %+v", shorts, plan)
		}
	}
	s.Job.Status.ShortMasters = 2
	s.Now = s.Masters[0].EndedAt.Add(4 * time.Second)
	if plan := Decide(s); plan.Raised != 2 || plan.Status.ShortMasters != 3 {
		t.Errorf("wanted the next master after 4 s: %+v", plan)
	}
	s.Job.Status.ShortMasters = ShortMastersMax - 1
	if got := condition(t, Decide(s), v1alpha1.ConditionFailed); got.Reason != "MasterUnavailable" ||
		!strings.Contains(got.Message, "not found in $PATH") {
		t.Errorf("condition: %+v", got)
	}
}
