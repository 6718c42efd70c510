package k8stest

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/command"
	"paceline.dev/operator/decide"
)

// The time from the wish to the last of 100 pods, beside that of plain creates of such pods on the
// same way, with the same number of connections.
func TestAHundredPodsAreMadeAsFastAsPlainOnes(t *testing.T) {
	s := set(t)
	s.submit(s.job(1, 100, 0))
	begun := time.Now()
	s.wish(1, 100, 0, nil)
	for s.proxy.done("POST pods") < 101 && time.Since(begun) < patience {
		time.Sleep(time.Millisecond)
	}
	took := time.Since(begun)
	s.awaitNodesAtLeast(100)
	if got := s.proxy.count("POST pods"); got != 101 {
		t.Errorf("%d creates for 101 pods", got)
	}
	plainClient, err := client.New(&rest.Config{Host: s.proxy.url, BearerToken: operatorToken, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, client.Options{})
	s.must(err)
	begun = time.Now()
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			for index := worker; index < 100; index += 16 {
				pod := command.NodePod(s.job(1, 100, 0), decide.NodeID{Index: uint32(index)})
				pod.Name, pod.OwnerReferences = "plain-"+pod.Name, nil
				delete(pod.Labels, command.JobLabel)
				delete(pod.Labels, command.RoleLabel)
				if err := plainClient.Create(s.ctx, pod); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	plain := time.Since(begun)
	const idle = 10 * time.Second
	before, lists := s.cpu(), s.proxy.lists()
	time.Sleep(idle)
	used := s.cpu() - before
	if got := s.proxy.lists() - lists; got != 0 {
		t.Errorf("%d lists while nothing happened", got)
	}
	t.Logf("100 pods: %v by the operator, %v plain; idle: %.2f%% of a core", took, plain,
		100*used.Seconds()/idle.Seconds())
	s.keep(map[string]time.Duration{"100 pods, operator": took, "100 pods, plain creates": plain,
		"CPU of 10 s idle": used})
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
