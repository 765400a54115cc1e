# Clean runs against runs after kills: which stall?
import sys, time, subprocess, os, json, re
sys.path.insert(0,'/work/wt/proof/tests/fabric')
from fabricbed import *
from testbed import *
kill=sys.argv[1]; seconds=float(sys.argv[2])
o=option_parser('').parse_args(['--build','/work/wt/proof/build'])
os.environ["PATH"] += ":/usr/sbin:/sbin"
with FabricBed(o) as bed, Testbed(o) as ports:
    bed.up(CHAIN,"--manager","opensm")
    wait_until(lambda: all("State: Active" in bed.run(h,"ibstat") for h in("H1","H2")),60,"x")
    nodes={n["name"]:n["ports"][0]["lid"] for n in json.loads(bed.verbatim("fabric","show","--json"))["nodes"]}
    def pair(*w):
        p=str(ports.free_port()); a=("ib_write_bw","-F",*w,"-p",p)
        s=bed.start("H1",*a); wait_until(lambda: s.poll() is not None or listens(s.pid,int(p)),30,"l")
        return s,bed.start("H2",*a,"127.0.0.1")
    end=time.time()+seconds; done=0
    while time.time()<end:
        if kill!="none":
            s,c=pair("-D","30"); time.sleep(.5)
            v=s if kill=="server" else c; v.kill(); v.wait(); (c if v is s else s).wait(30)
        s,c=pair("-s","65536","-n","500")
        try: c.wait(10); s.wait(10); done+=1
        except subprocess.TimeoutExpired:
            print(kill,"STALL after",done,"good runs; server",s.poll(),"client",c.poll(),flush=True)
            for pid in (s.pid,c.pid):
                print(pid,os.readlink(f"/proc/{pid}/exe"),[open(f"/proc/{pid}/task/{t}/wchan").read() for t in os.listdir(f"/proc/{pid}/task")],"cpu",cpu_seconds(pid))
            for r in (0,1):
                for n in("S1","S2","S3"):
                    for p in(1,2): print(r,n,p,re.findall(r"(XmitWait|XmitDiscards|XmitPkts|RcvPkts):\.*(\d+)",bed.run("H1","perfquery",str(nodes[n]),str(p))))
                time.sleep(1)
            for h in ("H1","H2"): print(open(f"{bed.folder}/ib_write_bw-{h}.out").read()[-500:])
            s.kill();c.kill();s.wait();c.wait()
            s,c=pair("-s","65536","-n","500")
            try: print("next run:",c.wait(20))
            except subprocess.TimeoutExpired: print("next run stalls, too")
            break
    else: print(kill,"no stall in",done,"runs",flush=True)
