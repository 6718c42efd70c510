// Package pb has the messages between the operator and a master. Those in platform.pb.go are made
// from proto/paceline/v1/platform.proto.
package pb

import (
	"context"

	"google.golang.org/grpc"
)

// The one method of the service Control (proto/paceline/v1/control.proto) that the operator calls.
// It is written here by hand: the generated service would need the messages of all its methods, and
// so those of agents, jobs and checkpoints.
const (
	service = "paceline.v1.Control"
	method  = "Supervise"
)

// Both sides of a stream.
type (
	SuperviseClient = grpc.BidiStreamingClient[SupervisorMessage, SupervisorOrder]
	SuperviseServer = grpc.BidiStreamingServer[SupervisorMessage, SupervisorOrder]
)

// Supervise opens the stream to a master.
func Supervise(ctx context.Context, connection grpc.ClientConnInterface) (SuperviseClient, error) {
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{StreamName: method,
		ServerStreams: true, ClientStreams: true}, "/"+service+"/"+method)
	if err != nil {
		return nil, err
	}
	return &grpc.GenericClientStream[SupervisorMessage, SupervisorOrder]{ClientStream: stream}, nil
}

// Register makes the server answer with `handle` to each stream, as a master does.
func Register(server grpc.ServiceRegistrar, handle func(SuperviseServer) error) {
	server.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: method, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error {
				return handle(&grpc.GenericServerStream[SupervisorMessage, SupervisorOrder]{
					ServerStream: stream})
			}}}}, struct{}{})
}
