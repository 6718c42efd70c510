package reconcile

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hosts has the taints and host names of the cluster's Kubernetes nodes. It is not a part of the
// manager's cache, because the operator works without the right to read nodes: then no taint is
// known. The right counts from the moment that the operator gets it.
type hosts struct {
	informer cache.SharedIndexInformer
	log      logr.Logger
	changed  func(host string)

	mutex   sync.Mutex
	wasTold bool // in the log that the right is missing
}

func newHosts(config *rest.Config, log logr.Logger, changed func(host string)) (*hosts, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	all := cache.NewListWatchFromClient(clients.CoreV1().RESTClient(), "nodes", "",
		fields.Everything())
	h := &hosts{informer: cache.NewSharedIndexInformer(all, &corev1.Node{}, 0, cache.Indexers{}),
		log: log, changed: changed}
	if err := h.informer.SetTransform(onlyNeeded); err != nil {
		return nil, err
	}
	if err := h.informer.SetWatchErrorHandler(h.failed); err != nil {
		return nil, err
	}
	_, err = h.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { h.look(nil, object) }, UpdateFunc: h.look})
	return h, err
}

// Start runs the watch until the manager ends.
func (h *hosts) Start(ctx context.Context) error {
	h.informer.RunWithContext(ctx)
	return nil
}

// onlyNeeded keeps a thousand nodes small.
func onlyNeeded(object any) (any, error) {
	node, isNode := object.(*corev1.Node)
	if !isNode {
		return object, nil
	}
	small := &corev1.Node{Spec: corev1.NodeSpec{Taints: node.Spec.Taints}}
	if hostname, has := node.Labels[corev1.LabelHostname]; has {
		small.Labels = map[string]string{corev1.LabelHostname: hostname}
	}
	small.Name, small.UID, small.ResourceVersion = node.Name, node.UID, node.ResourceVersion
	return small, nil
}

// failed says once that the right is missing. The reflector tries again with growing pauses.
func (h *hosts) failed(_ *cache.Reflector, err error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if !apierrors.IsForbidden(err) || h.wasTold {
		return
	}
	h.wasTold = true
	h.log.Info("taints_unknown", "why", err.Error(), "effect", "a taint of a node is no notice for "+
		"its pods; only their deletion is")
}

func (h *hosts) look(before, now any) {
	node, isNode := now.(*corev1.Node)
	if !isNode {
		return
	}
	if old, hadOne := before.(*corev1.Node); hadOne &&
		equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) {
		return
	}
	if len(node.Spec.Taints) > 0 {
		h.changed(node.Name)
	}
}

func (h *hosts) taintsOf(host string) []corev1.Taint {
	found, isKnown, err := h.informer.GetStore().GetByKey(host)
	if err != nil || !isKnown || host == "" {
		return nil
	}
	return found.(*corev1.Node).Spec.Taints
}

// hostnameOf is the node's label, which is what affinities know it by. If the node is not known, its
// name is taken, as it is the label almost everywhere.
func (h *hosts) hostnameOf(host string) string {
	found, isKnown, err := h.informer.GetStore().GetByKey(host)
	if err != nil || !isKnown {
		return host
	}
	if label := found.(*corev1.Node).Labels[corev1.LabelHostname]; label != "" {
		return label
	}
	return host
}

// wakeHost looks at all jobs that have a pod on the Kubernetes node.
func (r *Reconciler) wakeHost(host string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.MatchingFields{hostIndex: host},
		client.UnsafeDisableDeepCopy); err != nil {
		r.Log.Error(err, "pods_of_host", "host", host)
		return
	}
	for i := range pods.Items {
		if key, ok := jobKeyOf(&pods.Items[i]); ok {
			r.wakeKey(key.Namespace + "/" + key.Name)
		}
	}
}
