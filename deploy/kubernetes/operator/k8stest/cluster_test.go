// Package k8stest runs the operator's binary against a real API server, with the rights of
// install.yaml, and with a fake master. The test is the kubelet: it says which pods run.
//
// K8S_BINARIES names a folder with etcd, kube-apiserver and kube-controller-manager; OPERATOR the
// operator's binary (build/operator by default). Without them the tests are skipped.
package k8stest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/api/v1alpha1"
)

const (
	adminToken    = "admin-token"
	operatorToken = "operator-token"
	readerToken   = "reader-token" // of somebody with no right but that of a binding
	readerUser    = "reader"
	operatorUser  = "system:serviceaccount:paceline-system:paceline-operator"
	installYAML   = "../../install.yaml"
)

// cluster is one API server for all tests of the package.
type cluster struct {
	folder    string
	url       string
	admin     client.Client
	operator  string     // path of the binary
	mutex     sync.Mutex // of the processes
	processes []*exec.Cmd
}

var theCluster *cluster

func TestMain(m *testing.M) {
	binaries := os.Getenv("K8S_BINARIES")
	if binaries == "" {
		fmt.Println("SKIPPED: K8S_BINARIES names no folder with etcd and kube-apiserver")
		os.Exit(0)
	}
	folder, err := os.MkdirTemp("", "paceline-operator-test")
	if err == nil {
		theCluster = &cluster{folder: folder}
		err = theCluster.start(binaries)
	}
	code := 1
	if err != nil {
		fmt.Println("the cluster did not start:", err)
	} else {
		code = m.Run()
	}
	theCluster.stop()
	if code == 0 {
		os.RemoveAll(folder)
	} else {
		fmt.Println("logs are in", folder)
	}
	os.Exit(code)
}

func (c *cluster) start(binaries string) error {
	c.operator = os.Getenv("OPERATOR")
	if c.operator == "" {
		c.operator = "../../../../build/operator/paceline-operator"
	}
	if _, err := os.Stat(c.operator); err != nil {
		return fmt.Errorf("make operator first: %w", err)
	}
	etcd, peer, secure := freePort(), freePort(), freePort()
	c.url = fmt.Sprintf("https://127.0.0.1:%d", secure)
	tokens := fmt.Sprintf("%s,admin,1,\"system:masters\"\n%s,%s,2,\"system:serviceaccounts,"+
		"system:serviceaccounts:paceline-system\"\n%s,%s,3\n", adminToken, operatorToken, operatorUser,
		readerToken, readerUser)
	if err := os.WriteFile(c.path("tokens.csv"), []byte(tokens), 0o600); err != nil {
		return err
	}
	if err := writeKey(c.path("sa.key")); err != nil {
		return err
	}
	etcdURL, peerURL := fmt.Sprintf("http://127.0.0.1:%d", etcd), fmt.Sprintf("http://127.0.0.1:%d", peer)
	err := c.run("etcd", filepath.Join(binaries, "etcd"), "--data-dir", c.path("etcd"),
		"--unsafe-no-fsync", "--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL,
		"--initial-cluster", "default="+peerURL)
	if err != nil {
		return err
	}
	err = c.run("apiserver", filepath.Join(binaries, "kube-apiserver"), "--etcd-servers="+etcdURL,
		"--cert-dir="+c.path("pki"), fmt.Sprintf("--secure-port=%d", secure),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--service-cluster-ip-range=10.0.0.0/24", "--token-auth-file="+c.path("tokens.csv"),
		"--authorization-mode=RBAC", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+c.path("sa.key"),
		"--service-account-signing-key-file="+c.path("sa.key"),
		"--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none",
		"--profiling=false", "--enable-priority-and-fairness=false")
	if err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	if err := writeKubeconfig(c.path("admin.conf"), c.url, adminToken); err != nil {
		return err
	}
	return c.run("controllers", filepath.Join(binaries, "kube-controller-manager"),
		"--kubeconfig", c.path("admin.conf"), "--authentication-kubeconfig", c.path("admin.conf"),
		"--authorization-kubeconfig", c.path("admin.conf"), "--bind-address", "127.0.0.1",
		"--secure-port", fmt.Sprint(freePort()), "--cert-dir", c.path("pki"), "--leader-elect=false",
		"--controllers=garbage-collector-controller,resourcequota-controller,namespace-controller",
		"--service-account-private-key-file", c.path("sa.key"))
}

// connect waits for the server, and installs what users install.
func (c *cluster) connect() error {
	scheme := runtime.NewScheme()
	if err := clientscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	config := &rest.Config{Host: c.url, BearerToken: adminToken, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	deadline := time.Now().Add(90 * time.Second)
	for {
		var err error
		c.admin, err = client.New(config, client.Options{Scheme: scheme})
		if err == nil {
			err = c.admin.List(context.Background(), &corev1.NamespaceList{})
		}
		if err == nil {
			err = c.install()
		}
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (c *cluster) install() error {
	file, err := os.Open(installYAML)
	if err != nil {
		return err
	}
	defer file.Close()
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		object := &unstructured.Unstructured{}
		if decoder.Decode(object) != nil {
			break
		}
		if len(object.Object) == 0 || object.GetKind() == "Deployment" {
			continue
		}
		if err := c.admin.Create(context.Background(), object); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("installing %s: %w", object.GetKind(), err)
		}
	}
	if err := c.admin.List(context.Background(), &v1alpha1.ElasticJobList{}); err != nil {
		return err
	}
	// The API server learns of new rights a moment after they were made.
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: operatorUser, Groups: []string{"system:authenticated"},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/api", Verb: "get"},
	}}
	if err := c.admin.Create(context.Background(), review); err != nil || !review.Status.Allowed {
		return fmt.Errorf("the operator has no rights yet: %w", err)
	}
	return nil
}

func (c *cluster) path(name string) string { return filepath.Join(c.folder, name) }

// run starts a process that dies with the test's.
func (c *cluster) run(name, program string, arguments ...string) error {
	_, err := c.spawn(name, program, arguments...)
	return err
}

func (c *cluster) spawn(name, program string, arguments ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(c.path(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := exec.Command(program, arguments...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.processes = append(c.processes, command)
	return command, nil
}

func (c *cluster) stop() {
	if c == nil {
		return
	}
	for i := len(c.processes) - 1; i >= 0; i-- {
		c.processes[i].Process.Kill()
		c.processes[i].Wait()
	}
}

func freePort() int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func writeKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

func writeKubeconfig(path, url, token string) error {
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: it
clusters: [{name: it, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: it, user: {token: %q}}]
contexts: [{name: it, context: {cluster: it, user: it}}]
`, url, token)
	return os.WriteFile(path, []byte(text), 0o600)
}

func kubectlPath() string { return filepath.Join(os.Getenv("K8S_BINARIES"), "kubectl") }
