package master

import (
	"crypto/tls"
	"slices"
	"testing"
	"time"

	"paceline.dev/operator/decide"
	"paceline.dev/operator/internal/fakemaster"
	"paceline.dev/operator/internal/pb"
	"paceline.dev/operator/pki"
)

const patience = 60 * time.Second

type scene struct {
	*testing.T
	authority pki.Authority
	fake      *fakemaster.Master
	hub       *Hub
	target    Target
	changed   chan string
	problems  chan string
}

func set(t *testing.T) *scene {
	authority, err := pki.NewAuthority("train", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, authority: authority, changed: make(chan string, 1000),
		problems: make(chan string, 1000)}
	if s.fake, err = fakemaster.Start("127.0.0.1:0", "secret", authority); err != nil {
		t.Fatal(err)
	}
	s.hub = NewHub(func(key string) {
		if problem := s.hub.Stream(key).Problem; problem != "" {
			s.problems <- problem
		}
		s.changed <- key
	}, time.Now)
	roots, _ := pki.Pool(authority.CertificatePEM)
	own, _ := authority.Sign(pki.Certificate{Name: "operator", URI: "paceline://operator"}, time.Now())
	s.target = Target{Term: 1, Address: s.fake.Address(), ServerName: "master.paceline.internal",
		Token: "secret", Roots: roots, Own: own}
	t.Cleanup(func() { s.hub.HangUp("a/train"); s.fake.Close() })
	return s
}

func (s *scene) await(what string, isTrue func(decide.Stream) bool) {
	s.Helper()
	deadline := time.After(patience)
	for !isTrue(s.hub.Stream("a/train")) {
		select {
		case <-s.changed:
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			s.Fatalf("%s did not happen: %+v", what, s.hub.Stream("a/train"))
		}
	}
}

func TestHearsWishesAndTellsFacts(t *testing.T) {
	s := set(t)
	s.fake.Wish(&pb.Wish{Seq: 4, Intent: pb.Wish_RUN, Size: 2, Spares: 1, Absent: []uint32{1}})
	s.hub.Dial("a/train", s.target)
	s.hub.Tell("a/train", []decide.Fact{{Index: 0, Text: "Unschedulable"}, {Index: 2}}, nil)
	s.await("the wish", func(stream decide.Stream) bool { return stream.Wish != nil })
	wish := s.hub.Stream("a/train").Wish
	if _, isWanted := wish.Wants(1); isWanted || wish.Seq != 4 || wish.Size != 2 {
		t.Errorf("wish: %+v", wish)
	}
	if uris := s.fake.URIs(); uris[0] != "paceline://operator" {
		t.Errorf("the certificate's URI: %v", uris)
	}
	// Tell replaces the facts: one that was not sent yet would never be.
	s.await("two facts", func(decide.Stream) bool { return len(s.fake.Told()) == 2 })
	s.hub.Tell("a/train", []decide.Fact{{Index: 0, Gone: true, Text: "exit code 1"}, {Index: 2}}, nil)
	s.await("three facts", func(decide.Stream) bool { return len(s.fake.Told()) == 3 })
	gone := s.fake.Told()[2].GetNodeGone()
	if gone.GetName() != "node0" || gone.GetEvidence() != "exit code 1" || gone.Incarnation == nil {
		t.Errorf("gone: %+v", gone)
	}
	s.fake.End(0, "done")
	s.await("the end", func(stream decide.Stream) bool { return stream.Ended != nil })
}

// A number is told once to each stream, and again if another one was wanted in between.
func TestTellsHowManyNodesAreWanted(t *testing.T) {
	s := set(t)
	s.fake.Wish(&pb.Wish{Seq: 1, Intent: pb.Wish_RUN, Size: 2})
	s.hub.Dial("a/train", s.target)
	sizes := func() []uint32 {
		var all []uint32
		for _, message := range s.fake.Told() {
			if wanted := message.GetSizeWanted(); wanted != nil {
				all = append(all, wanted.Nodes)
			}
		}
		return all
	}
	var told []uint32
	for _, wanted := range [][]uint32{{4}, {4, 6}, {4}, {0, 4}} { // the last of each is told
		for _, nodes := range wanted {
			s.hub.Want("a/train", nodes)
		}
		told = append(told, wanted[len(wanted)-1])
		s.await("the number", func(decide.Stream) bool { return slices.Equal(sizes(), told) })
	}
	s.fake.Restart()
	s.await("the number on a new stream", func(decide.Stream) bool {
		return slices.Equal(sizes(), []uint32{4})
	})
	s.fake.Summary(&pb.Summary{Phase: "running"})
	s.await("a summary", func(stream decide.Stream) bool { return stream.Summary != nil })
	if s.hub.Stream("a/train").Summary.TakesSize {
		t.Error("a master of an older release takes a size")
	}
	none := uint32(0)
	s.fake.Summary(&pb.Summary{Phase: "running", Size: &none, SizeRefused: 4, Refusal: "no",
		Measures: []*pb.Measure{{Name: "rank_seconds", Of: "hang", Value: 2}}})
	s.await("the next one", func(stream decide.Stream) bool { return stream.Summary.TakesSize })
	summary := s.hub.Stream("a/train").Summary
	if summary.SizeRefused != 4 || summary.Refusal != "no" || len(summary.Measures) != 1 ||
		summary.Measures[0] != (decide.Measure{Name: "rank_seconds", Of: "hang", Value: 2}) {
		t.Errorf("got %+v", summary)
	}
}

func TestTellsThatTheEndIsKept(t *testing.T) {
	s := set(t)
	s.fake.Wish(&pb.Wish{Seq: 1, Intent: pb.Wish_RUN, Size: 1})
	s.hub.Dial("a/train", s.target)
	s.await("the wish", func(stream decide.Stream) bool { return stream.Wish != nil })
	s.fake.EndWith(0, "done", []byte("history"))
	s.await("the end", func(stream decide.Stream) bool { return stream.Ended != nil })
	if kept := s.hub.Stream("a/train").Ended.History; string(kept) != "history" {
		t.Errorf("history: %q", kept)
	}
	s.hub.KeptEnd("a/train")
	s.await("the answer", func(decide.Stream) bool {
		told := s.fake.Told()
		return len(told) > 0 && told[len(told)-1].GetEndKept() != nil
	})
}

func TestTakesNoHistoryThatTheApiServerWouldRefuse(t *testing.T) {
	end := endOf(&pb.JobEnded{ExitCode: 1, History: make([]byte, historyMax+1)})
	if end.History != nil || end.ExitCode != 1 {
		t.Errorf("end: %+v", end)
	}
}

func TestANewStreamTellsAllFactsAgain(t *testing.T) {
	s := set(t)
	s.hub.Dial("a/train", s.target)
	s.hub.Tell("a/train", []decide.Fact{{Index: 7, Gone: true, Text: "x"}}, nil)
	s.await("the fact", func(decide.Stream) bool { return len(s.fake.Told()) == 1 })
	s.fake.Restart()
	select {
	case <-s.problems:
	case <-time.After(patience):
		t.Fatal("a broken stream does not say why")
	}
	s.await("the fact again", func(decide.Stream) bool { return len(s.fake.Told()) == 1 })
}

func TestEachStreamIsToldTheNoticeOnce(t *testing.T) {
	s := set(t)
	s.target.Grace = time.Hour
	s.hub.Dial("a/train", s.target)
	s.hub.Notice("a/train", "the job was suspended")
	s.hub.Notice("a/train", "the job was suspended")
	s.hub.Tell("a/train", []decide.Fact{{Index: 7}}, nil)
	s.await("notice and fact", func(decide.Stream) bool { return len(s.fake.Told()) == 2 })
	first := s.fake.Told()[0].GetNotice()
	if first.GetWhy() != "the job was suspended" || first.GetName() != "" ||
		time.Duration(first.GetLeft()) <= 50*time.Minute {
		t.Errorf("notice: %+v", first)
	}
	s.fake.Restart()
	s.await("notice and fact again", func(decide.Stream) bool { return len(s.fake.Told()) == 2 })
	if again := s.fake.Told()[0].GetNotice(); again.GetLeft() >= first.GetLeft() {
		t.Errorf("the time did not pass: %d, then %d", first.GetLeft(), again.GetLeft())
	}
}

func TestTheMasterOfADeletedJobIsTold(t *testing.T) {
	s := set(t)
	s.target.Grace = time.Minute
	var grace time.Duration
	var podsHaveEnded func()
	s.hub.after = func(pause time.Duration, do func()) { grace, podsHaveEnded = pause, do }
	s.hub.Dial("a/train", s.target)
	s.await("the stream", func(stream decide.Stream) bool { return stream.Connected })
	s.hub.Conclude("a/train", "the job was deleted")
	s.await("the notice", func(decide.Stream) bool { return len(s.fake.Told()) == 1 })
	if stream := s.hub.Stream("a/train"); stream.Term != 0 {
		t.Errorf("a deleted job is remembered: %+v", stream)
	}
	if s.fake.Streams() != 1 || grace != time.Minute {
		t.Errorf("the stream is closed before the pods have ended, or after %s", grace)
	}
	podsHaveEnded()
	s.await("the end of the stream", func(decide.Stream) bool { return s.fake.Streams() == 0 })
}

func TestAnEmptyWishIsNoWish(t *testing.T) {
	for _, message := range []*pb.Wish{{}, {Intent: pb.Wish_RUN}, {Size: 4},
		{Intent: pb.Wish_RUN, Size: 1 << 31, Spares: 1 << 31}} {
		if wish := wishOf(message); wish != nil {
			t.Errorf("%v was taken for %+v", message, wish)
		}
	}
	if wishOf(&pb.Wish{Intent: pb.Wish_DRAIN}) == nil {
		t.Error("a drain needs no size")
	}
}

func TestALateWishIsNotTaken(t *testing.T) {
	s := set(t)
	s.fake.Wish(&pb.Wish{Seq: 9, Intent: pb.Wish_RUN, Size: 3})
	s.hub.Dial("a/train", s.target)
	s.await("the wish", func(stream decide.Stream) bool { return stream.Wish != nil })
	s.fake.Wish(&pb.Wish{Seq: 8, Intent: pb.Wish_RUN, Size: 1})
	s.fake.Summary(&pb.Summary{Phase: "running"})
	s.await("the summary", func(stream decide.Stream) bool { return stream.Summary != nil })
	if wish := s.hub.Stream("a/train").Wish; wish.Size != 3 {
		t.Errorf("wish: %+v", wish)
	}
}

func TestAnotherJobsMasterIsNotHeard(t *testing.T) {
	s := set(t)
	other, _ := pki.NewAuthority("other", time.Now())
	s.target.Roots, _ = pki.Pool(other.CertificatePEM)
	s.fake.Wish(&pb.Wish{Seq: 9, Intent: pb.Wish_RUN, Size: 3})
	s.hub.Dial("a/train", s.target)
	s.await("a problem", func(stream decide.Stream) bool { return stream.Problem != "" })
	if stream := s.hub.Stream("a/train"); stream.Wish != nil || stream.Connected {
		t.Errorf("got %+v", stream)
	}
	s.target.Own = tls.Certificate{}
}

func TestHangingUpKeepsWhatWasHeard(t *testing.T) {
	s := set(t)
	s.hub.Dial("a/train", s.target)
	s.await("the stream", func(stream decide.Stream) bool { return stream.Connected })
	s.hub.HangUp("a/train")
	stream := s.hub.Stream("a/train")
	if stream.Connected || stream.Term != 1 || stream.Heard.IsZero() {
		t.Errorf("got %+v", stream)
	}
	s.await("the end of the stream", func(decide.Stream) bool { return s.fake.Streams() == 0 })
	s.hub.Dial("a/train", s.target)
	s.await("the next stream", func(stream decide.Stream) bool { return stream.Connected })
}
