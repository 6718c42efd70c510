package transport

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"
)

type fake struct {
	now    time.Time
	slept  []time.Duration
	failed error
}

func (f *fake) RoundTrip(*http.Request) (*http.Response, error) {
	if f.failed != nil {
		return nil, f.failed
	}
	return &http.Response{StatusCode: http.StatusGone, Body: http.NoBody}, nil
}

func paced(f *fake) *pacedWatches {
	return &pacedWatches{next: f, paces: map[string]*pace{}, now: func() time.Time { return f.now },
		sleep: func(_ context.Context, pause time.Duration) error {
			f.slept = append(f.slept, pause)
			f.now = f.now.Add(pause)
			return nil
		}}
}

func ask(w http.RoundTripper, address string) {
	to, _ := url.Parse(address)
	w.RoundTrip(&http.Request{Method: http.MethodGet, URL: to})
}

const pods = "https://server/api/v1/pods?watch=true&sendInitialEvents=true"

func TestWatchesThatEndAtOnceComeMoreAndMoreSlowly(t *testing.T) {
	f := &fake{now: time.Unix(1000, 0)}
	w := paced(f)
	for range freeWatches {
		ask(w, pods)
	}
	if len(f.slept) != 0 {
		t.Fatalf("the first ones waited: %v", f.slept)
	}
	for range 20 {
		ask(w, pods)
	}
	if got := f.slept[:6]; got[0] != pauseMin || got[1] != 2*pauseMin || got[5] != pauseMax {
		t.Errorf("pauses: %v", f.slept)
	}
	if got := f.slept[len(f.slept)-1]; got != pauseMax {
		t.Errorf("the last pause: %v of %v", got, f.slept)
	}
}

func TestAWatchThatLivedEndsThePauses(t *testing.T) {
	f := &fake{now: time.Unix(1000, 0)}
	w := paced(f)
	for range 10 {
		ask(w, pods)
	}
	f.now = f.now.Add(shortWatch)
	before := len(f.slept)
	for range freeWatches {
		ask(w, pods)
	}
	if len(f.slept) != before {
		t.Errorf("it waited: %v", f.slept[before:])
	}
}

func TestOtherRequestsAndOtherKindsDoNotWait(t *testing.T) {
	f := &fake{now: time.Unix(1000, 0)}
	w := paced(f)
	for range 10 {
		ask(w, pods)
	}
	before := len(f.slept)
	for range 10 {
		ask(w, "https://server/api/v1/pods")
		ask(w, "https://server/api/v1/pods?watch=true&resourceVersion=7")
	}
	ask(w, "https://server/apis/paceline.dev/v1alpha1/elasticjobs?watch=1&sendInitialEvents=true")
	if len(f.slept) != before {
		t.Errorf("they waited: %v", f.slept[before:])
	}
}

func TestAServerThatIsAwayIsNotCounted(t *testing.T) {
	f := &fake{now: time.Unix(1000, 0), failed: errors.New("connection refused")}
	w := paced(f)
	for range 10 {
		ask(w, pods)
	}
	if len(f.slept) != 0 {
		t.Errorf("it waited: %v", f.slept)
	}
}
