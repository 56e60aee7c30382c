import sys; sys.path.insert(0,'/work/main/tests/ui')
from test_figure_widget import *
def test_dbg(lab):
    panel=lab.run_cells("import logging\nlogging.basicConfig(filename='/tmp/k.log',level=logging.INFO,force=True)\n"+TIMELINE)
    cell = panel.locator(".jp-CodeCell").first
    expect(canvas_of(cell)).to_be_visible(timeout=30000)
    lab.page.on("console", lambda m: print(m.type,m.text))
    lab.page.evaluate("""()=>{const k=window.jupyterapp.shell.currentWidget.sessionContext.session.kernel; k.anyMessage.connect((_,m)=>{const c=m.msg; if(c.header.msg_type=='comm_msg') console.log(m.direction, JSON.stringify(c.content).slice(0,600))})}""")
    box = cell.locator(".trt-lab-figure .bk-events").bounding_box(); lane=box["y"]+62
    for x in (.5,.9):
        lab.page.mouse.click(box["x"] + box["width"] * x, lane)
        lab.page.wait_for_timeout(1500); print('-----')
    print(lab.errors)
