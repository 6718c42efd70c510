// The operator of paceline: it makes the pods that the masters of ElasticJobs request.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"paceline.dev/operator/api/v1alpha1"
	"paceline.dev/operator/command"
	"paceline.dev/operator/reconcile"
	"paceline.dev/operator/transport"
)

// leaseName is the name of the Lease of operators that share their work.
const leaseName = "paceline-operator"

type flags struct {
	namespace    string
	metrics      string
	metricsCerts string // folder of tls.crt and tls.key; "": a certificate that nobody signed
	health       string
	leaderElect  bool
	// Namespace of the Lease, from POD_NAMESPACE.
	leaseNamespace string
}

func main() {
	var f flags
	flag.StringVar(&f.namespace, "namespace", "", "look after jobs of this namespace only")
	flag.StringVar(&f.metrics, "metrics-address", ":8443", "address for /metrics, by HTTPS; 0: none")
	flag.StringVar(&f.metricsCerts, "metrics-cert-dir", "", "folder with tls.crt and tls.key for "+
		"/metrics; without it the operator signs its certificate itself, anew at each start")
	flag.StringVar(&f.health, "health-address", ":8081", "address for /healthz and /readyz; 0: none")
	flag.BoolVar(&f.leaderElect, "leader-elect", false,
		"work only while this operator holds the Lease in the namespace $POD_NAMESPACE; needed for "+
			"two operators")
	flag.Parse() // controller-runtime adds --kubeconfig
	f.leaseNamespace = os.Getenv("POD_NAMESPACE")
	log := zap.New()
	if err := run(f, log); err != nil {
		fmt.Fprintln(os.Stderr, "paceline operator:", err)
		os.Exit(1)
	}
}

func run(f flags, log logr.Logger) error {
	if f.leaderElect && f.leaseNamespace == "" {
		return fmt.Errorf("--leader-elect needs a namespace for its Lease, and POD_NAMESPACE is not " +
			"set: set it as deploy/kubernetes/install.yaml does")
	}
	// Without the files the server would make a certificate that nobody has signed.
	if f.metricsCerts != "" {
		_, err := tls.LoadX509KeyPair(filepath.Join(f.metricsCerts, "tls.crt"),
			filepath.Join(f.metricsCerts, "tls.key"))
		if err != nil {
			return fmt.Errorf("--metrics-cert-dir: %w", err)
		}
	}
	ctrl.SetLogger(log)
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("no way to the API server: %w", err)
	}
	config.QPS = -1 // the API server limits us by its own rules (429), which are respected
	config.Wrap(transport.PacedWatches)
	scheme := runtime.NewScheme()
	if err := clientscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	options, err := optionsOf(f, scheme)
	if err != nil {
		return err
	}
	var rights *reconcile.Rights // made before the first watch
	lists := &reconcile.Lists{Namespace: f.namespace}
	options.Cache.DefaultWatchErrorHandler = func(ctx context.Context, watch *toolscache.Reflector,
		err error) {
		toolscache.DefaultWatchErrorHandler(ctx, watch, err)
		lists.Note(err)
		if apierrors.IsForbidden(err) {
			rights.Ask()
		}
	}
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	lists.Reader = manager.GetAPIReader()
	kind := v1alpha1.GroupVersion.WithKind("ElasticJob")
	if _, err := manager.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		return fmt.Errorf("the API server has no definition of ElasticJob %s (%w): apply the "+
			"install.yaml of this operator's release", kind.Version, err)
	}
	if rights, err = reconcile.NewRights(manager, f.namespace); err != nil {
		return err
	}
	if err := reconcile.SetUp(manager, rights); err != nil {
		return err
	}
	if f.leaderElect {
		rights.Share(types.NamespacedName{Namespace: f.leaseNamespace, Name: leaseName},
			manager.Elected())
	}
	if err := addProbes(manager, rights, lists); err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	go rights.Run(ctx) // beside the manager, which waits for its caches first
	return manager.Start(ctx)
}

// addProbes: an operator that does not hold the Lease is ready as well.
func addProbes(manager ctrl.Manager, rights *reconcile.Rights, lists *reconcile.Lists) error {
	if err := manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := manager.AddReadyzCheck("rights", rights.Ready); err != nil {
		return err
	}
	return manager.AddReadyzCheck("lists", lists.Ready)
}

// metricsOptions: who reads the metrics shows a token that the API server knows, of somebody who may
// get /metrics.
func metricsOptions(f flags) server.Options {
	return server.Options{BindAddress: f.metrics, SecureServing: true, CertDir: f.metricsCerts,
		FilterProvider: filters.WithAuthenticationAndAuthorization}
}

// optionsOf: the cache has jobs and their pods, and nothing else of the cluster.
func optionsOf(f flags, scheme *runtime.Scheme) (ctrl.Options, error) {
	hasJob, err := labels.NewRequirement(command.JobLabel, selection.Exists, nil)
	if err != nil {
		return ctrl.Options{}, err
	}
	lease, renew, retry := 15*time.Second, 10*time.Second, 2*time.Second
	options := ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}: {Label: labels.NewSelector().Add(*hasJob)},
			},
		},
		Metrics:                       metricsOptions(f),
		HealthProbeBindAddress:        f.health,
		LeaderElection:                f.leaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       f.leaseNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease, RenewDeadline: &renew, RetryPeriod: &retry,
	}
	if f.namespace != "" {
		options.Cache.DefaultNamespaces = map[string]cache.Config{f.namespace: {}}
	}
	return options, nil
}
