import os, re, sys, time, signal, subprocess, argparse
sys.path.insert(0,'/work/wt/proof/tests/fabric')
from fabricbed import *
from testbed import *
o=option_parser('').parse_args(['--build','/work/wt/proof/build'])
os.environ["PATH"] += ":/usr/sbin:/sbin"
with FabricBed(o) as bed, Testbed(o) as ports:
    bed.up(CHAIN,"--manager","opensm")
    wait_until(lambda: all("State: Active" in bed.run(h,"ibstat") for h in("H1","H2")),60,"x")
    def rate():
        p=str(ports.free_port()); a=("ib_write_bw","-F","-n","2000","-s","65536","-p",p)
        s=bed.start("H1",*a); wait_until(lambda: s.poll() is not None or listens(s.pid,int(p)),30,"l")
        out=bed.run("H2",*a,"127.0.0.1"); s.wait(30)
        return float(re.search(r"^ *65536 +2000 +\S+ +(\S+)",out,re.M)[1])
    print("before",[rate() for _ in range(4)],flush=True)
    for i in range(20):
        p=str(ports.free_port()); a=("ib_write_bw","-F","-D","20","-p",p)
        s=bed.start("H1",*a); wait_until(lambda: s.poll() is not None or listens(s.pid,int(p)),30,"l")
        c=bed.start("H2",*a,"127.0.0.1"); time.sleep(.6)
        assert c.poll() is None, ("client gone",i)
        v=(c if i%2 else s); v.kill(); v.wait()
        t=time.time()
        other=s if i%2 else c
        try: other.wait(8); r=other.returncode
        except subprocess.TimeoutExpired: r="still runs"
        if i in(0,1,9,19): print(i,"killed","client" if i%2 else "server","other:",r,f"{time.time()-t:.1f}s","rate",rate() if i in(9,19) else "",flush=True)
        other.kill(); other.wait()
    print("after",[rate() for _ in range(4)],flush=True)
    import json
    nodes={n["name"]:n["ports"][0]["lid"] for n in json.loads(bed.verbatim("fabric","show","--json"))["nodes"]}
    for n,p in(("S1",1),("S2",2),("S3",2)):
        t=bed.run("H1","perfquery","-x",str(nodes[n]),str(p)); print(n,p,re.findall(r"(PortXmitWait|PortXmitDiscards|SymbolErrorCounter):\.*(\d+)",bed.run("H1","perfquery",str(nodes[n]),str(p))))
