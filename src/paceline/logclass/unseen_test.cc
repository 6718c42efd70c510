// Texts that were collected from public reports before anybody who collected them had read the
// rules, and what a person said of them then. docs/status/diagnosis.md has the count of the first
// run. Names of hosts, users and files are made up.

#include <gtest/gtest.h>

#include <string>

#include "paceline/logclass/builtin.h"
#include "paceline/logclass/classify.h"

namespace paceline::logclass {
namespace {

using Role = ExitCause::Role;

struct Unseen {
  const char* text;
  const char* name;  // of the class that names what the person said
};

constexpr Unseen kPrinted[] = {
    // huggingface/trl#4149
    {"RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
     "CUDA kernel errors might be asynchronously reported at some other API call, so the "
     "stacktrace below might be incorrect.\n",
     "cuda_ecc"},
    // pytorch/pytorch#10577
    {"  File \"train.py\", line 250, in <module>\n"
     "    torch.save(best_model.state_dict(), path)\n"
     "RuntimeError: write(): fd 29 failed with Input/output error\n",
     "disk_io_error"},
    // open-mmlab/mmdetection#12069
    {"OSError: [Errno 122] Disk quota exceeded\n", "disk_full"},
    // hiyouga/LlamaFactory#5155
    {"safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: "
     "StorageFull, message: \"No space left on device\" })\n",
     "disk_full"},
    // THU-DA-6D-Pose-Group/GDR-Net#16
    {"ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
     "shared memory (shm).\n"
     "RuntimeError: DataLoader worker (pid 3216) is killed by signal: Bus error. It is possible "
     "that dataloader's workers are out of shared memory. Please try to raise your shared memory "
     "limit.\n",
     "shm_full"},
    // pytorch/pytorch#64990
    {"    store = TCPStore(master_addr, master_port, world_size, start_daemon, timeout)\n"
     "ValueError: host not found: Temporary failure in name resolution\n",
     "dns_failure"},
    // RBirkeland/MVCNN-PyTorch#8
    {"  File \"multiprocessing/resource_sharer.py\", line 48, in __init__\n"
     "OSError: [Errno 24] Too many open files\n",
     "file_limit"},
    // pytorch/pytorch#973
    {"RuntimeError: received 0 items of ancdata\n", "file_limit"},
    // Dao-AILab/flash-attention#1762
    {"    import flash_attn_2_cuda as flash_attn_gpu\n"
     "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.32' not found (required by "
     "flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so)\n",
     "library_missing"},
    // Dao-AILab/flash-attention#1832
    {"ImportError: flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so: undefined symbol: "
     "_ZN3c104cuda9SetDeviceEa\n",
     "library_missing"},
    // mlcommons/inference#54
    {"    torch._C._cuda_setDevice(device)\n"
     "RuntimeError: cuda runtime error (35) : CUDA driver version is insufficient for CUDA "
     "runtime version at /pytorch/torch/csrc/cuda/Module.cpp:34\n",
     "cuda_driver_too_old"},
    // nextflow-io/nextflow#5932
    {"slurmstepd: error: Detected 1 oom_kill event in StepId=11300781.0. Some of the step tasks "
     "have been OOM Killed.\n",
     "cgroup_oom"},
    // yunjey/pytorch-tutorial#131
    {"    magic_number = pickle_module.load(f)\n"
     "_pickle.UnpicklingError: invalid load key, '\\x00'.\n",
     "checkpoint_corrupt"},
    // huggingface/transformers#9732
    {"    torch.save(self.optimizer.state_dict(), path)\n"
     "OSError: [Errno 116] Stale file handle\n",
     "mount_lost"},
    // ray-project/deltacat#51
    {"botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the "
     "CompleteMultipartUpload operation (reached max retries: 4): Please reduce your request "
     "rate.\n",
     "object_store_failed"},
    // clovaai/bros#14
    {"RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( "
     "handle, opa, opb, m, n, k, &falpha, a, CUDA_R_16F, lda, b, CUDA_R_16F, ldb)`\n",
     "cuda_library_failed"},
    // MIC-DKFZ/nnUNet#1343
    {"OpenBLAS blas_thread_init: pthread_create failed for thread 50 of 64: Resource temporarily "
     "unavailable\n"
     "OpenBLAS blas_thread_init: RLIMIT_NPROC 4096 current, 513046 max\n",
     "process_limit"},
    // huggingface/autotrain-advanced#737
    {"torch.OutOfMemoryError: HIP out of memory. Tried to allocate 124.00 MiB. GPU 0 has a total "
     "capacity of 19.94 GiB of which 554.47 MiB is free.\n",
     "cuda_oom"},
    // alvinliu0/HumanGaussian#4
    {"requests.exceptions.ConnectionError: "
     "(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries "
     "exceeded with url: /model/config.json (Caused by "
     "NewConnectionError('<urllib3.connection.HTTPSConnection object at 0x7f80afce3400>: Failed "
     "to establish a new connection: [Errno 101] Network is unreachable'))\"))\n"
     "huggingface_hub.utils._errors.LocalEntryNotFoundError: An error happened while trying to "
     "locate the file on the Hub and we cannot find the requested files in the local cache.\n",
     "external_service_failed"},
    // FoundationVision/Infinity#31
    {"torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n"
     "ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler' "
     "(triton/compiler/compiler.py)\n",
     "compile_failed"},
    // verl-project/verl#3579
    {"[rank3]:[E923 11:14:11.615370309 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) "
     "Rank 3] Process group watchdog thread terminated with exception: CUDA error: misaligned "
     "address\n",
     "cuda_illegal_access"},
    // Tencent-Hunyuan/Hunyuan3D-2.1#156
    {"    return F.linear(input, self.weight, self.bias)\n"
     "RuntimeError: mat1 and mat2 shapes cannot be multiplied (5480x1536 and 1024x2048)\n",
     "shape_mismatch"},
    // ZettaAI/zetta_utils#671
    {"slurmstepd: error: *** STEP 494583.0 ON node7 CANCELLED AT 2024-04-20T09:09:37 DUE TO TIME "
     "LIMIT ***\n",
     "time_limit"},
    // deepspeedai/DeepSpeed#5570
    {"RuntimeError: Error(s) in loading state_dict for LlamaForCausalLM:\n"
     "\tsize mismatch for model.layers.4.self_attn.q_proj.weight: copying a param with shape "
     "torch.Size([1024, 1024]) from checkpoint, the shape in current model is torch.Size([4096, "
     "4096]).\n",
     "checkpoint_mismatch"},
    // NVIDIA/nccl#1405
    {"worker-0:3468:3905 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer "
     "10.216.210.236<54862> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid "
     "fd00::22 remoteGidsfd00::1f\n",
     "ib_retry_exceeded"},
    // uccl-project/uccl#303
    {"RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:544] Connection closed "
     "by peer [10.2.96.68]:21932\n",
     "connection_reset"},
    // RVC-Project#1882
    {"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error "
     "[192.168.70.92]:25266: Connection reset by peer\n",
     "connection_reset"},
    // xorbitsai/inference#4421
    {"[rank1]:[W1229 22:06:38.480071392 ProcessGroupNCCL.cpp:1662] [PG ID 0 PG GUID 0 Rank 1] "
     "Failed to check the \"should dump\" flag on TCPStore, (maybe TCPStore server has shut down "
     "too early), with error: Broken pipe\n"
     "[rank1]:[W1229 22:06:38.558655037 TCPStore.cpp:106] [c10d] sendBytes failed on "
     "SocketImpl(fd=67, addr=[bogon]:36214, remote=[bogon]:43145): Broken pipe\n",
     "store_closed"},
    // NVIDIA/nccl#1232
    {"[0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer "
     "node2<42830>\n",
     "connection_reset"},
    // NVIDIA/nccl#795
    {"host-22:183006:183220 [1] misc/socket.cc:518 NCCL WARN Net : Call to recv from "
     "10.200.84.247<58355> failed : Broken pipe\n"
     "RuntimeError: NCCL error: remote process exited or there was a network error\n",
     "broken_pipe"},
    // zai-org/GLM-130B#132
    {"RuntimeError: NCCL communicator was aborted on rank 2.  Original reason for failure was: "
     "[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=10, "
     "OpType=BROADCAST, Timeout(ms)=1800000) ran for 1805457 milliseconds before timing out.\n",
     "nccl_timeout"},
    // hiyouga/LlamaFactory#5071
    {"EI0006: 2024-08-05-18:15:21.270.506 Getting socket times out. Reason: Remote Rank did not "
     "send the data in time. Please check the reason for the rank being stuck\n",
     "hccl_timeout"},
    // uccl-project/uccl#303
    {"W0826 12:47:25.330000 1475957 "
     "site-packages/torch/distributed/elastic/multiprocessing/api.py:900] Sending process "
     "1475988 closing signal SIGTERM\n",
     "child_failed"},
};

TEST(UnseenTest, WhatRanksPrintedHasTheClassThatAPersonNamed) {
  for (const Unseen& unseen : kPrinted) {
    const Rule* rule = Classify(BuiltinRules(), {.stderr_tail = unseen.text});
    ASSERT_NE(rule, nullptr) << unseen.text;
    EXPECT_EQ(rule->name, unseen.name) << unseen.text;
  }
}

TEST(UnseenTest, AConsequenceIsNoCause) {
  for (const char* name : {"connection_reset", "store_closed", "nccl_remote_error", "nccl_timeout",
                           "hccl_timeout", "child_failed", "broken_pipe", "ib_retry_exceeded"}) {
    const Rule* rule = BuiltinRules().Find(name);
    ASSERT_NE(rule, nullptr) << name;
    EXPECT_EQ(rule->role, Role::kCascade) << name;
  }
}

// Xid 45 ends the contexts of other GPUs after an error of one of them.
TEST(UnseenTest, AClearedContextIsNotBlamedBesideItsCause) {
  const char* ended =
      "NVRM: Xid (PCI:0000:dc:00): 45, pid=18, name=python3, Ch 00000001 caused by previous Xid "
      "149\n";
  const char* broke =
      "NVRM: Xid (PCI:0000:00:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x025001c6 "
      "0x00000000)\n";
  const std::string both = std::string(ended) + broke;
  const Rule* rule = Classify(BuiltinRules(), {.kernel_lines = both});
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(rule->name, "xid_149");
}

}  // namespace
}  // namespace paceline::logclass
