package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/api/v1alpha1"
)

// Longest time of the lists that a readiness probe makes.
const probeTimeout = 5 * time.Second

// Lists is the readiness probe of the watches. After a watch failed, the probe lists jobs and pods
// itself, and the operator is ready again when that works.
type Lists struct {
	Reader    client.Reader // not of the cache
	Namespace string        // "": all

	mutex  sync.Mutex
	failed error
}

// Note hears of an error of a watch. One that ends a healthy watch does not count.
func (l *Lists) Note(err error) {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.failed = err
}

// Ready returns an error while jobs or pods cannot be listed.
func (l *Lists) Ready(request *http.Request) error {
	l.mutex.Lock()
	before := l.failed
	l.mutex.Unlock()
	if before == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(request.Context(), probeTimeout)
	defer cancel()
	err := l.Reader.List(ctx, &v1alpha1.ElasticJobList{}, client.InNamespace(l.Namespace))
	if err == nil {
		err = l.Reader.List(ctx, &corev1.PodList{}, client.InNamespace(l.Namespace), client.Limit(1))
	}
	if err != nil {
		return fmt.Errorf("the operator cannot list jobs and pods: %w", err)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.failed == before {
		l.failed = nil
	}
	return nil
}
