// Package master keeps one stream to each job's master: it hears wishes and summaries, and tells
// what became of nodes. It decides nothing.
package master

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"paceline.dev/operator/decide"
	"paceline.dev/operator/internal/pb"
)

// Bounds of waiting.
const (
	connectTimeout = 3 * time.Second
	redialPauseMin = 200 * time.Millisecond
	redialPauseMax = 2 * time.Second
	keepaliveTime  = 10 * time.Second // grpc-go allows no less
	keepaliveWait  = 3 * time.Second
)

// Target is a master, and what proves each side to the other.
type Target struct {
	Term       int64
	Address    string
	ServerName string
	Token      string
	Roots      *x509.CertPool
	Own        tls.Certificate
	// Grace is the time that a pod of the job has from SIGTERM to its end.
	Grace time.Duration
}

// client is the stream to one target. Its goroutine ends when `cancel` is called.
type client struct {
	target  Target
	cancel  context.CancelFunc
	changed func()
	now     func() time.Time

	mutex  sync.Mutex
	stream decide.Stream
	facts  []decide.Fact // all facts to send to the master
	leaves map[decide.NodeID]leave
	size   wanted
	isKept bool          // the job's end is stored
	notice string        // why the job is about to end, or ""
	until  time.Time     // deadline of that end
	wake   chan struct{} // has one element if the facts or the notice changed
}

// leave says why a node will be taken away, and by when the master must have let it leave.
type leave struct {
	why   string
	until time.Time
}

// wanted is the number of nodes that the master is to be told. Each change has a higher seq, so that
// a number is told again after another one.
type wanted struct {
	nodes uint32 // 0: nothing
	seq   int
}

func newClient(target Target, changed func(), now func() time.Time) *client {
	ctx, cancel := context.WithCancel(context.Background())
	c := &client{target: target, cancel: cancel, changed: changed, now: now,
		stream: decide.Stream{Term: target.Term, Heard: now()}, wake: make(chan struct{}, 1)}
	go c.run(ctx)
	return c
}

func (c *client) snapshot() decide.Stream {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.stream
}

// tell replaces the facts and notices to send to the master. The grace of a node that will be taken
// away begins with its first notice.
func (c *client) tell(facts []decide.Fact, notices []decide.NodeNotice) {
	c.mutex.Lock()
	leaves := make(map[decide.NodeID]leave, len(notices))
	for _, notice := range notices {
		known, isKnown := c.leaves[notice.NodeID]
		if !isKnown {
			known = leave{notice.Why, c.now().Add(c.target.Grace)}
		}
		leaves[notice.NodeID] = known
	}
	c.facts, c.leaves = facts, leaves
	c.mutex.Unlock()
	c.rouse()
}

// want replaces the number of nodes to tell. A repetition changes nothing.
func (c *client) want(nodes uint32) {
	c.mutex.Lock()
	isNew := c.size.nodes != nodes
	if isNew {
		c.size = wanted{nodes, c.size.seq + 1}
	}
	c.mutex.Unlock()
	if isNew {
		c.rouse()
	}
}

// give tells the master that its job is about to end. A repetition changes nothing.
func (c *client) give(notice string) {
	c.mutex.Lock()
	if c.notice == "" {
		c.notice, c.until = notice, c.now().Add(c.target.Grace)
	}
	c.mutex.Unlock()
	c.rouse()
}

// keptEnd tells the master that the job's end is stored.
func (c *client) keptEnd() {
	c.mutex.Lock()
	c.isKept = true
	c.mutex.Unlock()
	c.rouse()
}

func (c *client) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *client) update(change func(*decide.Stream)) {
	c.mutex.Lock()
	change(&c.stream)
	c.mutex.Unlock()
	c.changed()
}

// run dials until the client is cancelled or the job has ended.
func (c *client) run(ctx context.Context) {
	pause := redialPauseMin
	for ctx.Err() == nil {
		heard, err := c.session(ctx)
		if ctx.Err() != nil {
			return
		}
		problem := "the master closed the stream"
		if err != nil && !errors.Is(err, io.EOF) {
			problem = status.Convert(err).Message()
		}
		wasConnected := c.snapshot().Connected
		if wasConnected || c.snapshot().Problem != problem {
			c.update(func(s *decide.Stream) { s.Connected, s.Problem = false, problem })
		}
		if c.snapshot().Ended != nil {
			return
		}
		if heard {
			pause = redialPauseMin
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, redialPauseMax)
	}
}

// session is one connection. It returns whether the master said something.
func (c *client) session(parent context.Context) (heard bool, err error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	connection, err := grpc.NewClient("passthrough:///"+c.target.Address,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			ServerName: c.target.ServerName, RootCAs: c.target.Roots,
			Certificates: []tls.Certificate{c.target.Own}, MinVersion: tls.VersionTLS12,
		})),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime,
			Timeout: keepaliveWait}),
		grpc.WithNoProxy(), grpc.WithDisableRetry())
	if err != nil {
		return false, err
	}
	defer connection.Close()
	timer := time.AfterFunc(connectTimeout, cancel)
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.target.Token)
	stream, err := pb.Supervise(ctx, connection)
	if err != nil {
		return false, err
	}
	if !timer.Stop() {
		return false, errors.New("the master did not answer in time")
	}
	c.update(func(s *decide.Stream) { s.Connected, s.Problem, s.Heard = true, "", c.now() })
	go c.send(ctx, stream)
	for {
		order, err := stream.Recv()
		if err != nil {
			return heard, err
		}
		heard = true
		c.update(func(s *decide.Stream) { c.hear(s, order) })
	}
}

// hear takes one order. A wish that is older than the one at hand is not taken: it was late.
func (c *client) hear(s *decide.Stream, order *pb.SupervisorOrder) {
	s.Heard = c.now()
	switch body := order.GetBody().(type) {
	case *pb.SupervisorOrder_Wish:
		wish := wishOf(body.Wish)
		if wish != nil && (s.Wish == nil || wish.Seq >= s.Wish.Seq) {
			s.Wish = wish
		}
	case *pb.SupervisorOrder_Summary:
		s.Summary = summaryOf(body.Summary)
	case *pb.SupervisorOrder_Ended:
		s.Ended = endOf(body.Ended)
	}
}

// send tells what this stream has not told yet: the notices and the facts. A new stream tells all.
func (c *client) send(ctx context.Context, stream pb.SuperviseClient) {
	told := map[uint32]decide.Fact{}
	toldLeaves := map[decide.NodeID]leave{}
	hasTold, toldSize := false, 0
	for {
		c.mutex.Lock()
		facts, leaves, notice, until := c.facts, c.leaves, c.notice, c.until // none is changed in place
		isKept, size := c.isKept, c.size
		c.mutex.Unlock()
		if isKept {
			stream.Send(endKept()) // the last message: the master closes the stream
			return
		}
		if notice != "" && !hasTold {
			if stream.Send(noticeOf(notice, until.Sub(c.now()))) != nil {
				return // Recv has the error
			}
			hasTold = true
		}
		if size.nodes != 0 && size.seq != toldSize {
			if stream.Send(sizeWanted(size.nodes)) != nil {
				return // Recv has the error
			}
		}
		toldSize = size.seq
		for id, leave := range leaves {
			if _, wasTold := toldLeaves[id]; !wasTold {
				if stream.Send(nodeNoticeOf(id, leave.why, leave.until.Sub(c.now()))) != nil {
					return // Recv has the error
				}
			}
		}
		toldLeaves = leaves
		current := make(map[uint32]decide.Fact, len(facts))
		for _, fact := range facts {
			if before, wasTold := told[fact.Index]; !wasTold || before != fact {
				if stream.Send(messageOf(fact)) != nil {
					return // Recv has the error
				}
			}
			current[fact.Index] = fact
		}
		told = current
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
	}
}
