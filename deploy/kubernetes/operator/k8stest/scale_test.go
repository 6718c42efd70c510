package k8stest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/command"
	"paceline.dev/operator/decide"
)

// The time from the wish to the last of 100 pods, between two rounds of plain creates of such pods
// on the same way, with the same number of connections. The first round also warms the way.
func TestAHundredPodsAreMadeAsFastAsPlainOnes(t *testing.T) {
	t.Parallel()
	s := setWith(t, true)
	s.submit(s.job(1, 101, 0))
	s.awaitNodes(nodeNames(1)...)
	plainClient, err := client.New(&rest.Config{Host: s.proxy.url, BearerToken: operatorToken, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, client.Options{})
	s.must(err)
	before := s.plainPods(plainClient, "before-")
	creates := s.proxy.done("POST pods")
	begun := time.Now()
	var waited atomic.Int64 // from the wish to the first create
	s.proxy.setHook(func(r *http.Request) int {
		if verbOf(r) == "POST pods" {
			waited.CompareAndSwap(0, int64(time.Since(begun)))
		}
		return 0
	})
	s.wish(1, 101, 0, nil)
	for s.proxy.done("POST pods") < creates+100 && time.Since(begun) < patience {
		time.Sleep(time.Millisecond)
	}
	took := time.Since(begun)
	s.proxy.setHook(nil)
	s.awaitNodesAtLeast(101)
	if got := s.proxy.count("POST pods"); got != creates+100 {
		t.Errorf("%d creates for 100 pods", got-creates)
	}
	after := s.plainPods(plainClient, "after-")
	const idle = 10 * time.Second
	cpu, lists := s.cpu(), s.proxy.lists()
	time.Sleep(idle)
	used := s.cpu() - cpu
	if got := s.proxy.lists() - lists; got != 0 {
		t.Errorf("%d lists while nothing happened", got)
	}
	t.Logf("100 pods: %v by the operator, the first create after %v; plain %v before, %v after; "+
		"idle: %.2f%% of a core", took, time.Duration(waited.Load()), before, after,
		100*used.Seconds()/idle.Seconds())
	s.keep(map[string]time.Duration{"100 pods, operator": took, "first create": time.Duration(waited.Load()),
		"100 plain pods, before": before, "100 plain pods, after": after, "CPU of 10 s idle": used})
}

// plainPods makes 100 pods like those of the job, but without a job, and returns how long it took.
func (s *scene) plainPods(plainClient client.Client, prefix string) time.Duration {
	begun := time.Now()
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			for index := worker; index < 100; index += 16 {
				pod := command.NodePod(s.job(1, 100, 0), decide.NodeID{Index: uint32(index)}, nil)
				pod.Name, pod.OwnerReferences = prefix+pod.Name, nil
				delete(pod.Labels, command.JobLabel)
				delete(pod.Labels, command.RoleLabel)
				if err := plainClient.Create(s.ctx, pod); err != nil {
					s.Error(err)
				}
			}
		})
	}
	group.Wait()
	return time.Since(begun)
}

// keep appends samples to the file that RAW names, in the format of bench/harness.py.
func (s *scene) keep(samples map[string]time.Duration) {
	path := os.Getenv("RAW")
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	s.must(err)
	defer file.Close()
	for system, took := range samples {
		s.must(json.NewEncoder(file).Encode(map[string]any{"question": "kubernetes_pods",
			"run": time.Now().UTC().Format(time.RFC3339), "system": system, "seconds": took.Seconds()}))
	}
}

// cpu is the time that the operator has used.
func (s *scene) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid))
	s.must(err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	ticks := 0
	for _, field := range fields[11:13] { // utime, stime
		count, err := strconv.Atoi(field)
		s.must(err)
		ticks += count
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
