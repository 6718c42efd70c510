// Package transport has what the operator adds to its connection with the API server.
package transport

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Bounds of the pauses between watches of one kind.
const (
	// A watch that lived for less time than this is a short one.
	shortWatch = 5 * time.Second
	// Number of short watches in a row that need no pause.
	freeWatches = 4
	pauseMin    = 250 * time.Millisecond
	pauseMax    = 8 * time.Second
)

// PacedWatches delays a list by watching (sendInitialEvents) if those of the same path before it
// ended soon. client-go's reflector (0.37) repeats such a watch without any pause when the API
// server answers that its version has expired (410). A server that answers all of them so would get
// as many requests as it can answer. For all other failures, and for plain watches, the reflector
// has pauses of its own. Between a plain list and its watch there must be none, because the version
// may expire meanwhile.
func PacedWatches(next http.RoundTripper) http.RoundTripper {
	return &pacedWatches{next: next, now: time.Now, sleep: sleep, paces: map[string]*pace{}}
}

type pacedWatches struct {
	next  http.RoundTripper
	now   func() time.Time
	sleep func(context.Context, time.Duration) error

	mutex sync.Mutex
	paces map[string]*pace // by path: one for each kind and namespace
}

type pace struct {
	begun  time.Time // the newest watch
	shorts int       // in a row
}

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (w *pacedWatches) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("sendInitialEvents") != "true" {
		return w.next.RoundTrip(r)
	}
	if pause := w.pauseBefore(r.URL.Path); pause > 0 {
		if err := w.sleep(r.Context(), pause); err != nil {
			return nil, err
		}
	}
	begun := w.now()
	response, err := w.next.RoundTrip(r)
	if err == nil {
		w.note(r.URL.Path, begun)
	}
	return response, err
}

// pauseBefore is how long the next watch of the path has to wait.
func (w *pacedWatches) pauseBefore(path string) time.Duration {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	known := w.paces[path]
	if known == nil {
		return 0
	}
	if w.now().Sub(known.begun) >= shortWatch {
		known.shorts = 0
		return 0
	}
	known.shorts++
	if known.shorts < freeWatches {
		return 0
	}
	return min(pauseMin<<min(known.shorts-freeWatches, 8), pauseMax)
}

func (w *pacedWatches) note(path string, begun time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.paces[path] == nil {
		w.paces[path] = &pace{}
	}
	w.paces[path].begun = begun
}
