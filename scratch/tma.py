import sys, subprocess, os
if len(sys.argv)>1:
    outer,inner=int(sys.argv[1]),int(sys.argv[2])
    import torch
    from tests.gpu.test_tensormap import *
    run=TmaCopy(dtypes.bfloat16,(8,64),128)
    s=torch.randn(100,200,device='cuda').bfloat16(); t=torch.zeros_like(s)
    run(torch,s,t,outer,inner); torch.cuda.synchronize(); print("ok")
else:
    for o,i in [(0,0),(99,0),(0,192),(0,190),(1,-32),(-1,16),(-8,0),(0,200),(100,0)]:
        r=subprocess.run([sys.executable,__file__,str(o),str(i)],capture_output=True,text=True,env={**os.environ,"PYTHONPATH":".","CUDA_LAUNCH_BLOCKING":"1"},timeout=60)
        print((o,i),r.returncode,(r.stdout+r.stderr).strip().splitlines()[-1:][0][:150],flush=True)
