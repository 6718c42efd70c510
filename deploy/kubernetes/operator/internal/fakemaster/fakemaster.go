// Package fakemaster is a master for tests: it serves the real protocol with the job's own
// credentials, says what a test tells it to, and remembers what it was told.
package fakemaster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"paceline.dev/operator/internal/pb"
	"paceline.dev/operator/pki"
)

// Master is one process of a master.
type Master struct {
	server  *grpc.Server
	address string
	token   string

	mutex   sync.Mutex
	streams map[chan *pb.SupervisorOrder]context.CancelFunc
	wish    *pb.Wish
	told    []*pb.SupervisorMessage
	uris    []string
}

// Start serves on the address. With port 0 the system chooses a free one, which Address tells.
func Start(address, token string, authority pki.Authority) (*Master, error) {
	own, err := authority.Sign(pki.Certificate{Name: "master.paceline.internal", Server: true},
		time.Now())
	if err != nil {
		return nil, err
	}
	roots, err := pki.Pool(authority.CertificatePEM)
	if err != nil {
		return nil, err
	}
	return start(address, token, own, roots)
}

func start(address, token string, own tls.Certificate, roots *x509.CertPool) (*Master, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	m := &Master{address: listener.Addr().String(), token: token,
		streams: map[chan *pb.SupervisorOrder]context.CancelFunc{}}
	m.server = grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{own}, ClientCAs: roots,
		ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	pb.Register(m.server, m.supervise)
	go m.server.Serve(listener)
	return m, nil
}

// Address is where the master listens, as host:port.
func (m *Master) Address() string { return m.address }

// Close breaks all connections and ends the process's service.
func (m *Master) Close() { m.server.Stop() }

// Restart does to clients what a new process at the same address does: their streams break, and
// what was told before is forgotten. The port stays bound, so nobody else can take it meanwhile.
func (m *Master) Restart() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.told = nil
	for _, end := range m.streams {
		end()
	}
}

// Wish is told to each stream, now and whenever one connects.
func (m *Master) Wish(wish *pb.Wish) {
	m.mutex.Lock()
	m.wish = wish
	m.mutex.Unlock()
	m.order(&pb.SupervisorOrder{Body: &pb.SupervisorOrder_Wish{Wish: wish}})
}

// Summary is told once.
func (m *Master) Summary(summary *pb.Summary) {
	m.order(&pb.SupervisorOrder{Body: &pb.SupervisorOrder_Summary{Summary: summary}})
}

// End is the last order.
func (m *Master) End(code int32, reason string) { m.EndWith(code, reason, nil) }

// EndWith is the last order, with what the operator is to keep.
func (m *Master) EndWith(code int32, reason string, history []byte) {
	m.order(&pb.SupervisorOrder{Body: &pb.SupervisorOrder_Ended{
		Ended: &pb.JobEnded{ExitCode: code, Reason: reason, History: history}}})
}

func (m *Master) order(order *pb.SupervisorOrder) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for stream := range m.streams {
		stream <- order
	}
}

// Told is all that the master was told, in order.
func (m *Master) Told() []*pb.SupervisorMessage {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return append([]*pb.SupervisorMessage(nil), m.told...)
}

// Streams is the number of streams that stand.
func (m *Master) Streams() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return len(m.streams)
}

// URIs are those of the clients' certificates.
func (m *Master) URIs() []string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return append([]string(nil), m.uris...)
}

// supervise serves one stream.
func (m *Master) supervise(stream pb.SuperviseServer) error {
	ctx, end := context.WithCancel(stream.Context())
	defer end()
	if given := metadata.ValueFromIncomingContext(ctx, "authorization"); len(given) != 1 ||
		given[0] != "Bearer "+m.token {
		return status.Error(codes.Unauthenticated, "wrong token")
	}
	orders := make(chan *pb.SupervisorOrder, 64)
	m.mutex.Lock()
	m.streams[orders] = end
	m.uris = append(m.uris, uriOf(ctx))
	if m.wish != nil {
		orders <- &pb.SupervisorOrder{Body: &pb.SupervisorOrder_Wish{Wish: m.wish}}
	}
	m.mutex.Unlock()
	defer func() {
		m.mutex.Lock()
		delete(m.streams, orders)
		m.mutex.Unlock()
	}()
	go m.listen(stream, end)
	for {
		select {
		case <-ctx.Done():
			return status.Error(codes.Unavailable, "the master ends")
		case order := <-orders:
			if err := stream.Send(order); err != nil {
				return err
			}
		}
	}
}

// listen remembers what the operator says. Like a master, it ends the stream after EndKept.
func (m *Master) listen(stream pb.SuperviseServer, end context.CancelFunc) {
	for {
		message, err := stream.Recv()
		if err != nil {
			return
		}
		m.mutex.Lock()
		m.told = append(m.told, message)
		m.mutex.Unlock()
		if message.GetEndKept() != nil {
			end()
			return
		}
	}
}

func uriOf(ctx context.Context) string {
	from, _ := peer.FromContext(ctx)
	info, isTLS := from.AuthInfo.(credentials.TLSInfo)
	if !isTLS || len(info.State.PeerCertificates) == 0 ||
		len(info.State.PeerCertificates[0].URIs) == 0 {
		return ""
	}
	return info.State.PeerCertificates[0].URIs[0].String()
}
