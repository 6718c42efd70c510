package decide

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"paceline.dev/operator/api/v1alpha1"
)

// world is a cluster that goes wrong: pods end, vanish and hang, the list lags, the operator dies
// between any two writes, the master's wish changes. After each look the rules are checked; at the
// end nothing goes wrong any more, and the pods must be exactly those wished for.
type world struct {
	t      *testing.T
	random *rand.Rand
	now    time.Time
	job    Job
	pods   map[string]*NodePod // the truth
	cache  map[string]NodePod  // what the operator's list shows
	ever   map[string]bool     // names of all pods that were ever made
	master *MasterPod
	stream Stream
	memory Memory
	calm   bool
	seed   int64
}

func newWorld(t *testing.T, seed int64) *world {
	w := &world{t: t, random: rand.New(rand.NewSource(seed)), now: start, seed: seed,
		job:  Job{Name: "train", NodesMin: 2, NodesMax: 4, Spares: 1},
		pods: map[string]*NodePod{}, cache: map[string]NodePod{}, ever: map[string]bool{}}
	w.restart()
	return w
}

func (w *world) restart() {
	w.memory = Memory{Since: w.now, HasSecrets: true, Made: map[string]time.Time{},
		Gone: map[string]string{}, PodRefused: map[string]Refusal{}}
	w.stream = Stream{}
	w.sync() // a cache begins with a list
}

func (w *world) sync() {
	w.cache = map[string]NodePod{}
	for name, pod := range w.pods {
		w.cache[name] = *pod
	}
}

func (w *world) chance(percent int) bool { return !w.calm && w.random.Intn(100) < percent }

func (w *world) look() {
	s := Snapshot{Now: w.now, Job: w.job, Stream: w.stream, Memory: w.memory}
	s.Memory.ServiceTerm = w.job.Status.MasterTerm
	if w.master != nil {
		s.Masters = []MasterPod{*w.master}
	}
	for _, pod := range w.cache {
		s.Nodes = append(s.Nodes, pod)
	}
	if w.chance(3) {
		s.Nodes = nil // an empty list
	}
	w.apply(&s, Decide(s))
}

func (w *world) apply(s *Snapshot, plan Plan) {
	if plan.Status != nil {
		w.job.Status = *plan.Status
		if plan.Raised != 0 {
			w.memory.TermRaised = plan.Raised
			return
		}
	}
	if w.chance(3) {
		w.restart()
		return
	}
	if plan.CreateMaster {
		w.makeMaster()
	}
	if plan.Dial != "" && w.stream.Term != w.job.Status.MasterTerm {
		w.stream = Stream{Term: w.job.Status.MasterTerm, Connected: true, Heard: w.now,
			Wish: w.firstWish()}
	}
	for _, name := range plan.Confirm {
		if _, exists := w.pods[name]; !exists && (w.master == nil || w.master.Name != name) {
			w.memory.Gone[name] = "was deleted"
		}
	}
	isStart := meta.FindStatusCondition(s.Job.Status.Conditions, v1alpha1.ConditionRunning) == nil
	for _, id := range plan.Creates {
		if !hasUsableWish(s) {
			if !isStart || id.Index >= uint32(s.Job.NodesMin) {
				w.fail("%+v is made without a wish", id)
			}
		} else if incarnation, isWanted := s.Stream.Wish.Wants(id.Index); !isWanted ||
			incarnation != id.Incarnation {
			w.fail("%+v is made and not wished for", id)
		}
	}
	if len(plan.Deletes) > 0 && !hasUsableWish(s) {
		w.fail("pods change without a wish: %+v", plan)
	}
	for _, which := range plan.Deletes {
		w.checkDelete(s, which)
		if pod := w.pods[which.Name]; pod != nil {
			pod.Terminating = true
		}
	}
	for _, id := range plan.Creates {
		if w.chance(3) {
			w.restart() // it died between two pods
			return
		}
		w.create(id)
	}
	w.hearFacts(plan.Facts)
}

func hasUsableWish(s *Snapshot) bool {
	return s.Stream.Wish != nil && s.Stream.Term == s.Job.Status.MasterTerm
}

func (w *world) makeMaster() {
	term := w.job.Status.MasterTerm
	name := MasterName("train", term)
	if w.ever[name] {
		w.fail("%s is made twice", name)
	}
	w.ever[name] = true
	w.master = &MasterPod{Pod: pod(name, Running), Term: term, Address: "a"}
	w.master.Created = w.now
	w.memory.Made[name] = w.now
}

func (w *world) firstWish() *Wish {
	return &Wish{Seq: 1, Size: 4, Spares: 1, Incarnations: map[uint32]uint32{}}
}

func (w *world) create(id NodeID) {
	name := NodePodName("train", id)
	if _, exists := w.pods[name]; exists { // AlreadyExists, by the same owner
		w.memory.Made[name] = w.now
		return
	}
	// An operator that died before it wrote down a pod, which then vanished, may make it again.
	recorded, wasSeen := fromStatus(w.job.Status.Seen)[id.Index]
	_, wasMade := w.memory.Made[name]
	if w.ever[name] && (wasSeen && recorded >= id.Incarnation || wasMade ||
		w.memory.Gone[name] != "") {
		w.fail("%s is made again", name)
	}
	w.ever[name] = true
	made := node(id.Index, id.Incarnation, Waiting)
	w.pods[name] = &made
	w.memory.Made[name] = w.now
}

// checkDelete: a pod that is wished for is never deleted.
func (w *world) checkDelete(s *Snapshot, which Delete) {
	pod, exists := w.pods[which.Name]
	if !exists {
		return
	}
	incarnation, isWanted := s.Stream.Wish.Wants(pod.Index)
	if isWanted && pod.Incarnation >= incarnation && pod.isLive() {
		w.fail("%s is deleted although it is wished for", which.Name)
	}
}

// hearFacts is the master: a node that is gone gets the next incarnation.
func (w *world) hearFacts(facts []Fact) {
	if w.stream.Wish == nil || !w.stream.Connected {
		return
	}
	next := *w.stream.Wish
	next.Incarnations = map[uint32]uint32{}
	for index, incarnation := range w.stream.Wish.Incarnations {
		next.Incarnations[index] = incarnation
	}
	for _, fact := range facts {
		if !fact.Gone || fact.Incarnation < next.Incarnations[fact.Index] {
			continue
		}
		if pod := w.pods[NodePodName("train", NodeID{fact.Index, fact.Incarnation})]; pod != nil &&
			pod.isLive() {
			w.fail("%+v is told of a pod that lives", fact)
		}
		next.Incarnations[fact.Index] = fact.Incarnation + 1
		next.Seq++
	}
	w.stream.Wish = &next
}

// happen lets time pass, and things go wrong.
func (w *world) happen() {
	w.now = w.now.Add(time.Duration(w.random.Intn(900)) * time.Millisecond)
	for name, pod := range w.pods {
		switch {
		case pod.Terminating && (w.calm || w.random.Intn(3) == 0):
			w.vanish(name)
		case pod.Phase == Waiting && (w.calm || w.random.Intn(2) == 0):
			pod.Phase = Running
		case w.chance(2):
			pod.Phase, pod.Reason = Ended, "exit code 1"
		case w.chance(2):
			w.vanish(name)
		}
	}
	if w.calm || w.random.Intn(3) == 0 {
		w.sync()
	}
	if w.stream.Connected {
		w.stream.Heard = w.now
	}
	if w.chance(4) {
		w.stream.Connected = false
	} else if w.master != nil && w.master.Term == w.stream.Term && w.calm {
		w.stream.Connected = true
	}
	if w.master != nil && w.chance(2) {
		if w.random.Intn(2) == 0 {
			w.memory.Gone[w.master.Name] = "was deleted"
		}
		w.master, w.stream.Connected = nil, false
	}
	if w.stream.Wish != nil && w.chance(4) {
		next := *w.stream.Wish
		next.Size = uint32(1 + w.random.Intn(6))
		next.Seq++
		w.stream.Wish = &next
	}
}

func (w *world) vanish(name string) {
	delete(w.pods, name)
	if w.random.Intn(2) == 0 { // the watch tells of it, or it was cut
		w.memory.Gone[name] = "was deleted"
		delete(w.cache, name)
	}
}

func (w *world) fail(format string, arguments ...any) {
	w.t.Fatalf("seed %d: %s", w.seed, fmt.Sprintf(format, arguments...))
}

// checkConverged: each wished node has one live pod, and nobody else has one.
func (w *world) checkConverged() {
	live := map[uint32]int{}
	for _, pod := range w.pods {
		if pod.isLive() && !pod.Terminating {
			live[pod.Index]++
		}
	}
	if w.stream.Wish == nil || w.master == nil || w.master.Term != w.job.Status.MasterTerm {
		w.fail("no master in the end: term %d", w.job.Status.MasterTerm)
	}
	count := w.stream.Wish.Size + w.stream.Wish.Spares
	for index := uint32(0); index < count; index++ {
		if live[index] != 1 {
			w.fail("node%d has %d pods in the end; wish %+v, seen %+v", index, live[index],
				w.stream.Wish, w.job.Status.Seen)
		}
		delete(live, index)
	}
	if len(live) > 0 {
		w.fail("pods that are not wished for: %v", live)
	}
}

func TestKeepsItsRulesWhateverHappens(t *testing.T) {
	seeds := int64(400)
	if testing.Short() {
		seeds = 100
	}
	for seed := int64(1); seed <= seeds; seed++ {
		w := newWorld(t, seed)
		for step := 0; step < 150; step++ {
			w.happen()
			w.look()
		}
		w.calm = true
		for step := 0; step < 120; step++ {
			w.happen()
			w.look()
		}
		w.checkConverged()
	}
}
