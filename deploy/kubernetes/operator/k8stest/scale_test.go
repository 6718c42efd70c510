package k8stest

import (
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
	before := s.cpu()
	time.Sleep(5 * time.Second)
	t.Logf("100 pods: %v by the operator, %v plain; idle: %.2f%% of a core", took, plain,
		100*(s.cpu()-before).Seconds()/5)
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
